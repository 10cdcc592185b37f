"""Frames to commands and replies to frames, in the encoding of the request."""

from routebook.wire import header_binary, header_json
from routebook.wire.codes import ResponseCode
from routebook.wire.command import BINARY, Command, Oversized, Reply
from routebook.wire.frame import LARGE_FRAME, MAX_FRAME, Frame, frame, frame_of

MAX_REQUEST_HEADER = 256 * 1024  # key-value pairs travel in headers, and nothing else large
_MAX_HEADER = 0xFFFFFF


def decode_command(received: Frame) -> Command:
    """Raises WireError for a header that is none."""
    codec, header, body = received
    command = header_json.decode(header) if codec == 0 else header_binary.decode(header)
    command.body = body
    command.codec = codec
    return command


def oversized(received: Frame) -> Command:
    """A request whose header is too large to be read: what is needed to refuse it.

    Raises WireError when not even that is to be had.
    """
    codec, header, _ = received
    find = header_binary.envelope if codec == BINARY else header_json.envelope
    opaque, flag = find(header)
    remark = f"a header of {len(header)} bytes exceeds the limit of {MAX_REQUEST_HEADER}"
    return Oversized(flag=flag, opaque=opaque, remark=remark, codec=codec)


def encode_reply(request: Command, reply: Reply, max_frame: int = MAX_FRAME) -> bytes:
    """The whole frame that answers ``request``, in the encoding it came in.

    An answer no peer could read is replaced by a refusal that says so.
    """
    codec = request.codec
    encode = header_binary.encode_reply if codec == BINARY else header_json.encode_reply
    header = encode(reply, request.opaque)
    size = 8 + len(header) + len(reply.body)
    if size > max_frame or len(header) > _MAX_HEADER:
        remark = f"the answer of {size} bytes exceeds the frame limit of {max_frame}"
        return frame(codec, encode(Reply(ResponseCode.SYSTEM_ERROR, remark), request.opaque))
    return frame(codec, header, reply.body)


def reply_parts(request: Command, reply: Reply, max_frame: int = MAX_FRAME) -> list[bytes]:
    """``encode_reply``, with a large body left where it is."""
    if len(reply.body) <= LARGE_FRAME or len(reply.body) > max_frame - LARGE_FRAME:
        return [encode_reply(request, reply, max_frame)]
    encode = header_binary.encode_reply if request.codec == BINARY else header_json.encode_reply
    header = encode(reply, request.opaque)
    if len(header) > LARGE_FRAME:
        return [encode_reply(request, reply, max_frame)]
    return [frame_of(request.codec, header, len(reply.body)), reply.body]


def encode_request(command: Command) -> bytes:
    """The whole frame of a request of ours."""
    if command.codec == BINARY:
        return frame(BINARY, header_binary.encode_request(command), command.body)
    return frame(0, header_json.encode_request(command), command.body)
