"""What a registration says, whatever the shape of its body."""

from dataclasses import dataclass, replace

from differential.steps import Form, Mapping, Queues, Register, Spelling, Stamp

V3_0_11, V5_0_0 = 37, 413


@dataclass(frozen=True, slots=True)
class Content:
    """``topics`` None is a null table; ``filters`` None leaves what is known."""

    topics: dict[str, Queues] | None
    stamp: Stamp | None
    mappings: tuple[Mapping, ...]
    filters: tuple[str, ...] | None


def content(step: Register) -> Content | None:
    """None for a body that does not fit the version of its sender."""
    if step.via.version < 0:
        return None
    old = step.via.version < V3_0_11
    topics = dict(step.topics)
    match step.form:
        case Form.NOTHING:
            return Content({}, Stamp(0, 0, 0), (), None if old else ())
        case Form.JSON | Form.NULL_TABLE:
            if old:  # read as the inner object, of which it has no member
                return Content({}, Stamp(timestamp=None), (), None)
            table = None if step.form is Form.NULL_TABLE else topics
            return Content(table, step.stamp, step.mappings, step.filters)
        case Form.OLD:
            if old:
                return Content(topics, step.stamp, (), None)
            return Content({}, Stamp(timestamp=None), (), ())
        case Form.COMPRESSED | Form.UNLABELLED | Form.CUT:
            mapped = step.via.version >= V5_0_0
            if old or (mapped and step.form is Form.CUT):
                return None
            # System flags have no place in a compressed topic.
            topics = {topic: replace(queues, sys_flag=0) for topic, queues in topics.items()}
            return Content(topics, step.stamp, step.mappings if mapped else (), step.filters or ())


def skips_bare_keys(step: Register) -> bool:
    """Whether the integer keys of a mapping stand in a part that its version does not know."""
    old = step.via.version < V3_0_11
    return old and step.form is not Form.OLD and any(info.queues for info in step.mappings)


def skips_trailing_commas(step: Register) -> bool:
    """Whether there are such in a part that its version does not know."""
    old = step.via.version < V3_0_11
    unknown = old != (step.form is Form.OLD)
    numbers = step.stamp is not None or step.topics or step.mappings
    return unknown and step.spelling is Spelling.TRAILING_COMMAS and bool(numbers)
