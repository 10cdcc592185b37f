from support.builders import registration_body
from support.desk import Desk


def test_pieces_are_kept_for_each_shape_and_go_with_the_group() -> None:
    desk = Desk()
    shapes = {f"t{n}": {"readQueueNums": 1 + n % 2, "writeQueueNums": 1} for n in range(6)}
    desk.register("broker-a", body=registration_body(shapes), link=1)
    desk.register("broker-b", addr="b:1", body=registration_body(shapes), link=2)
    for topic in shapes:
        desk.route(topic)
    pieces = desk.services.renderer.pieces
    assert len(pieces) == 4

    desk.close(1)
    while desk.routes.topics.clear_some():
        pass
    desk.events.clear()
    assert len(pieces) == 2


def test_a_group_that_changed_is_encoded_anew() -> None:
    desk = Desk()
    desk.register("broker-a", 0, addr="10.0.0.1:10911", link=1)
    assert desk.addrs() == {"broker-a": {"0": "10.0.0.1:10911"}}

    desk.register("broker-a", 1, addr="10.0.0.2:10911", link=2)
    assert desk.addrs() == {"broker-a": {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"}}

    desk.close(2)
    assert desk.addrs() == {"broker-a": {"0": "10.0.0.1:10911"}}
