import pytest

from routebook.client.errors import NoNameServers
from routebook.client.sources import (
    FIRST_REFRESH_S,
    FixedAddresses,
    HttpAddresses,
    address_service_url,
    find_source,
    parse_addresses,
)
from routebook.wire.address import Address

ONE, TWO = Address("10.0.0.1", 9876), Address("10.0.0.2", 9877)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        pytest.param("10.0.0.1:9876;10.0.0.2:9877", (ONE, TWO), id="two"),
        pytest.param("10.0.0.2:9877;10.0.0.1:9876", (TWO, ONE), id="order-kept"),
        pytest.param(" 10.0.0.1:9876 ;\t10.0.0.2:9877\n", (ONE, TWO), id="blanks"),
        pytest.param(";;10.0.0.1:9876; ;", (ONE,), id="empty-elements"),
        pytest.param("10.0.0.1:9876;10.0.0.2:9877;10.0.0.1:9876", (ONE, TWO), id="duplicates"),
        pytest.param("http://MQ_INST_1_a.mq:8080", (Address("MQ_INST_1_a.mq", 8080),), id="http"),
        pytest.param("http://x/y/10.0.0.1:9876;10.0.0.2:9877", (ONE, TWO), id="http-path"),
        pytest.param("http://10.0.0.1:9876;http://10.0.0.2:9877", (ONE, TWO), id="http-twice"),
        pytest.param("ns-1.example.org.:1", (Address("ns-1.example.org.", 1),), id="rooted-name"),
        pytest.param("ns:65535", (Address("ns", 65535),), id="largest-port"),
        pytest.param("", (), id="empty"),
        pytest.param(" ; ", (), id="blank"),
    ],
)
def test_a_list_is_addresses_between_semicolons(text: str, addresses: tuple[Address, ...]) -> None:
    assert parse_addresses(text) == addresses


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("[::1]:9876", "::1"),
        ("::1:9876", "::1"),
        ("[2001:db8::7]:9876", "2001:db8::7"),
        ("[::ffff:10.0.0.1]:9876", "::ffff:10.0.0.1"),
        ("fe80::1%eth0:9876", "fe80::1%eth0"),
        ("[fe80::1%br-lan.100]:9876", "fe80::1%br-lan.100"),
        ("[fe80::1%2]:9876", "fe80::1%2"),
    ],
)
def test_ipv6_and_scope_ids_survive_a_round_trip(text: str, host: str) -> None:
    (address,) = parse_addresses(text)

    assert address == Address(host, 9876)
    assert Address.parse(str(address)) == address
    assert parse_addresses(str(address)) == (address,)


@pytest.mark.parametrize(
    "element",
    [
        "10.0.0.9",
        "ns:",
        ":9876",
        "ns:x",
        "ns:0",
        "ns:65536",
        "ns:-1",
        "a:1,b:2",
        "a b:1",
        "a..b:1",
        "a" * 64 + ":1",
        "a." * 127 + ":1",
        "naïve:1",
        "<html>:80",
        "https://ns:9876",
        "http://ns:9876/",
        "::1",
        "[::1]",
        "[::1:9876",
        "::1]:9876",
        "1:2:9876",
        "[fe80::1%]:9876",
        "[fe80::1%a b]:9876",
        "ns%eth0:9876",
        "ns:" + "9" * 5000,
    ],
)
def test_the_element_that_is_no_address_is_named(element: str) -> None:
    with pytest.raises(ValueError, match="expected host:port") as caught:
        parse_addresses(f"10.0.0.1:9876;{element};10.0.0.2:9877")

    assert repr(element[:100]) in str(caught.value)


async def test_the_strongest_way_that_is_set_decides() -> None:
    environ = {"NAMESRV_ADDR": "environment:3"}
    program = find_source("program:1", option="option:2", environ=environ)
    option = find_source(option="option:2", environ=environ)
    environment = find_source(environ=environ)
    http = find_source(environ={})

    assert await program.find() == (Address("program", 1),)
    assert await option.find() == (Address("option", 2),)
    assert await environment.find() == (Address("environment", 3),)
    assert [source.description for source in (program, option, environment, http)] == [
        "the program",
        "the option -n",
        "NAMESRV_ADDR",
        "http://jmenv.tbsite.net:8080/rocketmq/nsaddr",
    ]


def test_only_the_http_service_is_asked_again() -> None:
    assert find_source("ns:1", environ={}).refresh_s is None
    assert find_source(environ={}).refresh_s == 120.0
    assert FIRST_REFRESH_S == 10.0


async def test_a_program_may_give_several_texts() -> None:
    source = find_source(["10.0.0.1:9876", "10.0.0.2:9877;10.0.0.1:9876"], environ={})

    assert await source.find() == (ONE, TWO)


@pytest.mark.parametrize(
    ("source", "whose"),
    [
        pytest.param(
            find_source("", option="ns:1", environ={"NAMESRV_ADDR": "ns:1"}),
            "the program",
            id="program",
        ),
        pytest.param(find_source([], option="ns:1", environ={}), "the program", id="no-texts"),
        pytest.param(
            find_source(option="", environ={"NAMESRV_ADDR": "ns:1"}), "the option -n", id="option"
        ),
        pytest.param(find_source(environ={"NAMESRV_ADDR": " "}), "NAMESRV_ADDR", id="environment"),
    ],
)
async def test_an_empty_list_means_no_list_and_nobody_else_is_asked(
    source: FixedAddresses, whose: str
) -> None:
    with pytest.raises(NoNameServers) as caught:
        await source.find()

    assert str(caught.value) == (
        "no NameServer is known: pass addresses, give -n host:port;host:port, set NAMESRV_ADDR,"
        f" or make the HTTP address service answer (the list given by {whose} is empty)"
    )


def test_a_malformed_list_is_refused_at_once_and_says_whose_it_is() -> None:
    with pytest.raises(ValueError, match=r"^the program: 'ns'"):
        find_source("ns", environ={})
    with pytest.raises(ValueError, match=r"^the option -n: 'ns'"):
        find_source(option="ns:1;ns", environ={})
    with pytest.raises(ValueError, match=r"^NAMESRV_ADDR: 'ns'"):
        find_source(environ={"NAMESRV_ADDR": "ns"})


def test_a_weaker_list_is_not_even_read() -> None:
    source = find_source("ns:1", option="!", environ={"NAMESRV_ADDR": "!"})

    assert source.description == "the program"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (address_service_url(), "http://jmenv.tbsite.net:8080/rocketmq/nsaddr"),
        (address_service_url("ns.example"), "http://ns.example:8080/rocketmq/nsaddr"),
        (address_service_url("ns.example:80", "test"), "http://ns.example:80/rocketmq/test"),
        (
            address_service_url("h", unit="center"),
            "http://h:8080/rocketmq/nsaddr-center?nofix=1",
        ),
        (
            address_service_url("h", parameters={"a": "1", "b": "2"}),
            "http://h:8080/rocketmq/nsaddr?a=1&b=2",
        ),
        (
            address_service_url("h", unit="u", parameters={"a": "1"}),
            "http://h:8080/rocketmq/nsaddr-u?nofix=1&a=1",
        ),
        (
            address_service_url("h", unit="u/ü?", parameters={"a": "1&2"}),
            "http://h:8080/rocketmq/nsaddr-u%2F%C3%BC%3F?nofix=1&a=1%262",
        ),
        (address_service_url("h", unit="", parameters={}), "http://h:8080/rocketmq/nsaddr"),
    ],
)
def test_the_url_of_the_service_is_the_one_other_clients_ask(url: str, expected: str) -> None:
    assert url == expected


def test_domain_and_subgroup_come_from_arguments_then_the_environment() -> None:
    environ = {"ROCKETMQ_NAMESRV_DOMAIN": "env:1", "ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP": "group"}

    assert find_source(environ=environ).description == "http://env:1/rocketmq/group"
    assert (
        find_source(environ=environ, domain="arg", subgroup="mine", unit="u").description
        == "http://arg:8080/rocketmq/mine-u?nofix=1"
    )


@pytest.mark.parametrize(
    "url", ["", "ns:9876", "https://ns/x", "file:///etc/hosts", "http:///x", "http://ns:x/"]
)
def test_only_http_urls_are_services(url: str) -> None:
    with pytest.raises(ValueError, match="is not an http:// URL"):
        HttpAddresses(url)
