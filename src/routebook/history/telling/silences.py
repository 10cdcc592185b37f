"""Each time in which a node was no witness, as a sentence and in a few words."""

from routebook.history.finding.witness import Silence, Silent
from routebook.history.telling.words import BUT_MOMENTS
from routebook.words import counted, span, time_of_day, to_second


def silence_sentence(silence: Silence) -> str:
    """What is known of a time in which a node was no witness."""
    since_ms = silence.since_ms if silence.recorded_ms is None else silence.recorded_ms
    said = f"no record between {time_of_day(since_ms)} and {time_of_day(silence.until_ms)}"
    if silence.until_ms < since_ms:
        said = (
            f"no record from {to_second(since_ms)} on, until the clock of the node had been set"
            f" back, to {to_second(silence.until_ms)} or earlier"
        )
    match silence.reason:
        case Silent.STOPPED:
            return f"{said}: the node was down."
        case Silent.KILLED:
            return f"{said}: {_stopped_after(silence)}, and not in order."
        case Silent.LOST:
            were = "record was" if silence.lost == 1 else "records were"
            return f"{said}: {f'{silence.lost} ' if silence.lost else ''}{were} lost."
        case Silent.MISSING:
            many = counted(silence.lost, "record") if silence.lost else "records are"
            return f"{said}: {many} missing from the journal."
        case Silent.STALLED:
            since, until = to_second(silence.since_ms), to_second(silence.until_ms)
            but = BUT_MOMENTS if silence.broken else ""
            return f"the node listened to nobody from {since} to {until}{but}."
        case Silent.SILENT:
            return f"{said}, although brokers were listed: whether the node was awake is not known."
        case Silent.CLOCK:
            return _clock_set(silence)
        case Silent.ENDED:
            return (
                f"no record after {time_of_day(since_ms)}: whether the node was awake after"
                f" {time_of_day(silence.since_ms)} is not known."
            )


def _stopped_after(silence: Silence) -> str:
    sign = ", its last sign of life" if silence.recorded_ms is not None else ""
    return f"the node stopped at some moment after {time_of_day(silence.since_ms)}{sign}"


def _clock_set(silence: Silence) -> str:
    by = span(abs(silence.clock_ms))
    if not silence.clock_ms:
        return "the clock of the node was set: times before and after it do not compare."
    if silence.clock_ms < 0:
        return (
            f"the clock of the node was set back by {by}, to {to_second(silence.until_ms)}: times"
            " before and after it do not compare."
        )
    return (
        f"the clock of the node was set forward by {by}, from {to_second(silence.since_ms)} to"
        f" {to_second(silence.until_ms)}: nobody was awake in between."
    )


_PHRASES = {
    Silent.STOPPED: "the node was down",
    Silent.LOST: "records were lost",
    Silent.MISSING: "records are missing",
    Silent.STALLED: "the node listened to nobody",
    Silent.SILENT: "nothing was recorded",
    Silent.CLOCK: "the clock of the node was set forward",
    Silent.ENDED: "the journal ends",
}


def silence_phrase(silence: Silence) -> str:
    """The same in a few words."""
    if silence.reason is Silent.KILLED:
        return f"the node stopped at some moment after {time_of_day(silence.since_ms)}"
    if silence.set_back:
        return "the clock of the node was set back"
    if silence.broken:
        return f"the node listened to nobody{BUT_MOMENTS}"
    return _PHRASES[silence.reason]
