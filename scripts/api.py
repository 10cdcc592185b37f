"""Write the API reference, docs/api, from the docstrings of everything public (``make api``)."""

import enum
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "api"


@dataclass(frozen=True)
class Page:
    """One page: names of a package in the order of their sections, and a program that uses them."""

    name: str
    title: str
    about: str
    names: str
    example: str | None = None
    package: str = "routebook"
    run_by: str = "tests/integration/test_examples.py"


GIVEN = {
    "ChangeStream",
    "LocalBroker",
    "LocalNode",
    "LocalNodes",
    "NodeClient",
    "Settings",
    "SyncNodeClient",
}
"""Classes whose objects users get from others, and do not make themselves."""

PAGES = (
    Page(
        "node",
        "A node",
        "A NameServer inside your program, with the settings of [operations](../operations.md).",
        "NameServer make_settings Settings SettingsError",
        "embedding.py",
    ),
    Page(
        "client",
        "The client",
        "Asks NameServers, RocketMQ's own included; [discovery](../discovery.md) tells how it finds"
        " them and what callers notice of faults. Every call has `timeout_s`, the time for the"
        " whole call.",
        "NameServerClient NodeClient SyncNameServerClient SyncNodeClient Dialing Tls Credentials"
        " Address find_source AddressSource FixedAddresses HttpAddresses TopicRoute BrokerGroup"
        " TopicQueues ClusterView SystemTopics WriteState Relayed Command Answer RequestCode"
        " ResponseCode",
        "client.py",
    ),
    Page(
        "cache",
        "The route cache",
        "Routes of the topics in use, kept fresh, and queues to send to and to read from.",
        "RouteCache MessageQueue CachedRoute ChangeStream RouteChange BrokerAppeared"
        " BrokerDisappeared AddressChanged QueuesChanged OrderChanged MappingsChanged"
        " FilterServersChanged NotCached CacheClosed RouteTimeout",
        "cache.py",
    ),
    Page(
        "agent",
        "The agent",
        "Keeps a broker, or any service that wants to be found, listed by all NameServers;"
        " [`routebook agent`](../agent.md) is a program around it.",
        "BrokerAgent BrokerSettings Topic NodeStatus Outcome DataVersion BadSettings",
        "agent.py",
    ),
    Page(
        "errors",
        "Errors of asking NameServers",
        "Each is a sentence that names the node and what it did. `NameServerError` is all of them;"
        " those of one node are `NodeError`.",
        "NameServerError NoNameServers AllNodesFailed NodeError CannotConnect ConnectionLost"
        " NoAnswer BadAnswer RequestTooLarge Refused TopicNotFound NotReady LeavingNode",
    ),
    Page(
        "testing",
        "Testing",
        "NameServers and brokers for tests. With pytest there are"
        " [fixtures](../testing.md) that give these.",
        "Workbench LocalNode LocalNodes LocalBroker NotRegistered",
        "test_orders.py",
        "routebook.testing",
    ),
    Page(
        "spark",
        "On Spark",
        "The past of all nodes, as frames; it takes `pip install 'routebook[spark]'`. Columns are"
        " explained with [the tables](../pipeline.md).",
        "build_session Lake Routebook register PipelineError",
        "spark.py",
        "routebook_spark",
        "tests/spark/test_questions.py",
    ),
)


def index() -> str:
    """What docs/api/README.md is to hold."""
    rows = [f"| [{page.title}]({page.name}.md) | {_listed(page.names.split())} |" for page in PAGES]
    return "\n".join(
        [
            "# API reference",
            "",
            "Everything that is public; [stability](../stability.md) says what that means."
            " The pages are written by `make api` from what the code says of itself.",
            "",
            "| page | names |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def text_of(page: Page) -> str:
    """What the file of a page is to hold."""
    parts = [f"# {page.title}", page.about, f"`from {page.package} import ...`"]
    if page.example is not None:
        code = (ROOT / "examples" / page.example).read_text()
        parts.append(f"[examples/{page.example}](../../examples/{page.example}):")
        parts.append(f"```python by {page.run_by}\n{code}```")
    package = importlib.import_module(page.package)
    told: dict[tuple[str, str], str] = {}  # name and words of a member, and the class it is of
    for name in page.names.split():
        parts += _section(name, getattr(package, name), told)
    return "\n\n".join(parts) + "\n"


def _section(name: str, value: Any, told: dict[tuple[str, str], str]) -> Iterator[str]:
    yield f"## {name}"
    if not isinstance(value, type):
        yield f"`{_called(name, value)}`"
        yield _prose(value.__doc__)
        return
    if issubclass(value, enum.Enum):
        yield _prose(value.__doc__)
        yield ", ".join(f"`{each.name}` {each.value}" for each in value) + "."
        return
    if _made_by_users(value):
        yield f"`{_called(name, value)}`"
    yield _prose(value.__doc__) + _uses(value)
    members = list(_members(value))
    of_others: dict[str, list[str]] = {}
    for member, words, signature in members:
        key = (member, words)
        if key in told:
            of_others.setdefault(told[key], []).append(member)
        else:
            told[key] = name
            yield f"* `{signature}`\n" + textwrap.indent(words, "  ")
    for other, names in of_others.items():
        yield f"As in [{other}](#{other.lower()}): {_listed(names)}."


def _made_by_users(kind: type) -> bool:
    if issubclass(kind, Exception):
        return any("__init__" in vars(base) for base in kind.__mro__ if _ours(base))
    return kind.__name__ not in GIVEN and not getattr(kind, "_is_protocol", False)


def _uses(kind: type) -> str:
    """What cannot be seen from the signature: bases that are public, and blocks."""
    bases = [base.__name__ for base in kind.__bases__ if _ours(base) and "_" not in base.__name__]
    public = [base for base in bases if any(base in page.names.split() for page in PAGES)]
    said = [f"A kind of {_listed(public)}."] if public else []
    if hasattr(kind, "__aenter__"):
        said.append("For `async with`.")
    elif hasattr(kind, "__enter__"):
        said.append("For `with`.")
    return "".join(f"\n\n{sentence}" for sentence in [" ".join(said)] if sentence)


def _members(kind: type) -> Iterator[tuple[str, str, str]]:
    """Name, words and signature of what a user sees of a class, in the order it is written."""
    seen = set()
    for base in filter(_ours, kind.__mro__):
        for member, found in vars(base).items():
            value = getattr(kind, member)
            if member.startswith("_") or member in seen or not _is_call(found):
                continue
            seen.add(member)
            words = _prose(inspect.getdoc(value))
            if isinstance(found, property):
                returned = inspect.signature(_getter(found)).return_annotation
                yield member, words, f"{member}: {_type(returned)}"
            else:
                awaited = "await " if inspect.iscoroutinefunction(value) else ""
                yield member, words, awaited + _called(member, value, bound=True)


def _getter(found: property) -> Callable[..., object]:
    assert found.fget is not None
    return found.fget


def _is_call(found: object) -> bool:
    return isinstance(found, property | classmethod) or inspect.isfunction(found)


def _ours(kind: type) -> bool:
    return kind.__module__.startswith("routebook")


def _called(name: str, value: Callable[..., object], *, bound: bool = False) -> str:
    signature = inspect.signature(value)
    parameters = list(signature.parameters.values())
    if bound and parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    shown = inspect.Signature(
        [
            each.replace(annotation=_Text(_type(each.annotation)), default=_default(each))
            if each.annotation is not each.empty
            else each.replace(default=_default(each))
            for each in parameters
        ]
    )
    returned = "" if isinstance(value, type) else f" -> {_type(signature.return_annotation)}"
    return f"{name}{shown}{returned}"


class _Text(str):
    """Shown in a signature as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _default(parameter: inspect.Parameter) -> object:
    """As a reader would write it; nothing of the machine the pages are written on."""
    default = parameter.default
    if isinstance(default, Path):
        return _Text(f"Path({str(default)!r})")
    if inspect.isroutine(default):
        return _Text(f"{default.__module__}.{default.__name__}")
    plain = default is parameter.empty or default in (None, ())
    return default if plain or isinstance(default, str | bytes | int | float) else _Text("...")


def _type(annotation: object) -> str:
    """As it is written in the code, without the modules of the names."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"Annotated\[(\w+), [^\]]*\]", r"\1", text)
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", text)
    text = re.sub(r"Union\[([^,\]]*), ([^,\]]*)\]", r"\1 | \2", text.replace("~", ""))
    return re.sub(r"Optional\[([^\]]*)\]", r"\1 | None", text)


def _prose(docstring: str | None) -> str:
    return inspect.cleandoc(docstring or "").replace("``", "`")


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "README.md").write_text(index())
    for page in PAGES:
        (FOLDER / f"{page.name}.md").write_text(text_of(page))


if __name__ == "__main__":
    main()
