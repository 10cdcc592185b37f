"""Frames to commands and replies to frames, in the encoding of the request."""

from routebook.wire import header_binary, header_json
from routebook.wire.command import BINARY, Command, Reply
from routebook.wire.frame import Frame, frame


def decode_command(received: Frame) -> Command:
    """Raises WireError for a header that is none."""
    codec, header, body = received
    command = header_json.decode(header) if codec == 0 else header_binary.decode(header)
    command.body = body
    command.codec = codec
    return command


def encode_reply(request: Command, reply: Reply) -> bytes:
    """The whole frame that answers ``request``, in the encoding it came in."""
    if request.codec == BINARY:
        return frame(BINARY, header_binary.encode_reply(reply, request.opaque), reply.body)
    return frame(0, header_json.encode_reply(reply, request.opaque), reply.body)


def encode_request(command: Command) -> bytes:
    """The whole frame of a request of ours."""
    if command.codec == BINARY:
        return frame(BINARY, header_binary.encode_request(command), command.body)
    return frame(0, header_json.encode_request(command), command.body)
