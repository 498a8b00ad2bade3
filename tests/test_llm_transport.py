"""How requests go out and replies come in: when plain connections will do, and what they make of servers' habits."""

from __future__ import annotations

import gc
import gzip
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llm_server import Handler, endpoint
from needs import require

from triage_gym.errors import EndpointError, InputError
from triage_gym.llm import ChatClient, ChatPool, Completion
from triage_gym.llm.address import plain
from triage_gym.llm.transport import Late, Lost, Packaged, Plain, Sending, TooLarge

KEY = "sk-planted-1234567890"
ASKED = [{"role": "user", "content": "hi"}]
SENDING = Sending({"model": "m", "messages": ASKED})


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy and no odd setting but a test's own."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "openai_org_id", "openai_project_id"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def asks() -> Iterator[Any]:
    """Makes plain transports, and closes them."""
    made: list[Plain] = []

    def make(url: str) -> Plain:
        made.append(Plain(url, KEY))
        return made[-1]

    yield make
    for one in made:
        one.close()


def soon(seconds: float = 20.0) -> float:
    return time.monotonic() + seconds


@pytest.mark.parametrize(
    ("url", "variables", "expected"),
    [
        ("http://localhost:8000/v1", {}, True),
        ("http://[::1]:8000/v1", {}, True),
        ("https://localhost:8000/v1", {}, False),
        ("http://h/v1?key=1", {}, False),
        ("http://h/v1", {"http_proxy": "http://proxy:3128"}, False),
        ("http://h/v1", {"ALL_PROXY": "http://proxy:3128"}, False),
        ("http://h/v1", {"https_proxy": "http://proxy:3128"}, True),
        ("http://h/v1", {"http_proxy": "http://proxy:3128", "no_proxy": "h"}, True),
        ("http://h/v1", {"OPENAI_ORG_ID": "org"}, False),
        ("http://h/v1", {"OPENAI_PROJECT_ID": "project"}, False),
    ],
)
def test_what_is_plain(url: str, variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert plain(url) is expected


@pytest.mark.parametrize("mode", ["ok", "chunked", "closing", "leaving"])
def test_every_habit_of_servers_ends_in_an_answer(mode: str, asks: Any) -> None:
    with endpoint(mode) as server:
        transport = asks(server.url)
        for _ in range(3):
            reply = transport.post(SENDING, soon())
            assert reply.status == 200
            assert b"hello" in reply.body
            time.sleep(0.05 if mode == "leaving" else 0.0)
        assert server.connections == (3 if mode in ("closing", "leaving") else 1)
        assert set(server.keys) == {f"Bearer {KEY}"}
        assert server.requests == [SENDING.fields] * 3


@pytest.mark.parametrize(
    ("mode", "error"),
    [("drop", Lost), ("half", Lost), ("huge", TooLarge), ("hang", Late), ("drip", Late), ("drip-headers", Late)],
)
def test_what_goes_wrong_is_told_by_kind_and_in_time(mode: str, error: type[Exception], asks: Any) -> None:
    with endpoint(mode, "ok") as server:
        transport = asks(server.url)
        with pytest.raises(error):
            transport.post(SENDING, soon(20.0 if error is not Late else 0.3))
        assert b"hello" in transport.post(SENDING, soon()).body, "the next one is not hurt by it"


def test_connections_are_let_go_when_nobody_closes_them() -> None:
    with endpoint() as server:
        transport = Plain(server.url, KEY)
        transport.post(SENDING, soon())
        kept = transport._idle[0].sock
        assert kept is not None
        del transport
        gc.collect()
        assert kept.fileno() == -1


def test_statuses_and_headers_are_handed_on(asks: Any) -> None:
    with endpoint("429-late") as server:
        reply = asks(server.url).post(SENDING, soon())
    assert (reply.status, reply.headers["retry-after"]) == (429, "90")


def test_what_is_not_plain_is_left_to_the_package() -> None:
    require("openai")
    with endpoint() as other, endpoint("redirect", target=other.url) as server:
        client = ChatClient("m", server.url)
        client.open()
        assert isinstance(client._transport, Plain)
        assert client.complete(ASKED).text == "hello"
        assert isinstance(client._transport, Packaged)
        client.close()
        assert other.keys in ([], [""]), "the key does not leave its host"


def test_what_is_zipped_is_unpacked_and_asked_for_once() -> None:
    require("openai")
    with endpoint("zipped") as server:
        client = ChatClient("m", server.url)
        assert client.complete(ASKED).text == "hello"
        assert isinstance(client._transport, Plain)
        assert len(server.requests) == 1
        assert client.usage["prompt_tokens"] == 11
        client.close()


@pytest.mark.parametrize(("body", "raised"), [(gzip.compress(b" " * 5_000_000), TooLarge), (b"no zip", Lost)])
def test_what_unpacks_to_too_much_or_not_at_all_is_refused(
    body: bytes, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def zipped(self: Handler) -> None:
        self.send(body, headers={"Content-Encoding": "gzip"})

    monkeypatch.setattr(Handler, "zipped", zipped)
    with endpoint("zipped") as server, pytest.raises(raised):
        Plain(server.url, KEY).post(SENDING, soon())


@pytest.mark.parametrize(
    "url",
    ["http://[::1/v1", "http://a:99999/v1", "http://a:x/v1", "http://a:0/v1", "http://a/b c", "http://a/ä", "ftp://a", "a:80",
     "http:///v1", "http://a/\r\nX: y", ""]
)  # fmt: skip
def test_what_is_no_address_is_refused_before_anything_waits_for_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require("openai")
    with pytest.raises(InputError, match="Expected base_url to be like"):
        ChatClient("m", url)
    if url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        with pytest.raises(InputError, match="Expected OPENAI_BASE_URL to be like"):
            ChatClient("m").open()


@pytest.mark.parametrize("url", ["http://me:secret@a/v1", "me:secret@a:80/v1"])
def test_a_password_in_an_address_is_not_repeated(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require("openai")
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for ask in (lambda: ChatClient("m", url), lambda: ChatClient("m").open()):
        with pytest.raises(InputError, match="without a user and a password") as caught:
            ask()
        assert "secret" not in str(caught.value)


def test_a_proxy_that_the_package_cannot_use_is_a_matter_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    require("openai")
    monkeypatch.setenv("ALL_PROXY", "odd://nowhere.invalid:1")
    with pytest.raises(InputError, match="variables of proxies"):
        ChatClient("m", "http://nowhere.invalid/v1", api_key_env="NO_SUCH_KEY").open()


def test_a_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    require("openai")
    with endpoint() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        client = ChatClient("m", "http://nowhere.invalid/v1", api_key_env="NO_SUCH_KEY", tries=1)
        assert client.complete(ASKED).text == "hello"
        client.close()


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    require("openai")
    maker = shutil.which("openssl")
    if maker is None:
        pytest.skip("openssl makes the certificate")
    own = [f"-keyout={tmp_path}/key", f"-out={tmp_path}/cert"]
    options = ["-x509", "-nodes", "-newkey=rsa:2048", "-days=2", "-subj=/CN=localhost"]
    flags = [word for option in (*options, *own) for word in option.split("=", 1)]
    subprocess.run([maker, "req", *flags], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    with endpoint() as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        client = ChatClient("m", server.url.replace("http:", "https:"), tries=5, backoff=30.0)
        with pytest.raises(EndpointError, match=r"(?i)certificate.*SSL_CERT_FILE.*1 try") as caught:
            client.complete(ASKED)
        client.close()
        assert caught.value.kind == "connection"
        assert server.keys == []


def test_the_address_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    require("openai")
    with endpoint() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/")
        client = ChatClient("m")
        assert client.complete(ASKED).text == "hello"
        assert isinstance(client._transport, Plain)
        client.close()


@pytest.mark.parametrize("key", ["sk-a\r\nX-Evil: 1", "sk-ä"])
def test_a_key_that_would_be_more_than_a_key_is_refused_and_not_shown(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("openai")
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(InputError, match="OPENAI_API_KEY") as caught:
        ChatClient("m", "http://localhost:1/v1").open()
    assert "sk-" not in str(caught.value)


def test_credit_that_is_used_up_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    require("openai")
    body = b'{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}'
    monkeypatch.setattr(Handler, "quota", lambda self: self.send(body, 429), raising=False)
    with endpoint("quota") as server:
        for odd in ("", "org"):  # plain connections, and the package
            monkeypatch.setenv("OPENAI_ORG_ID", odd)
            client = ChatClient("m", server.url)
            with pytest.raises(EndpointError, match=r"current quota.*no credit left") as caught:
                client.complete(ASKED)
            client.close()
            assert caught.value.kind == "rate_limited"
        assert len(server.requests) == 2


def test_a_package_that_is_closed_in_use_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    require("openai")
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    with endpoint("slow") as server:
        client = ChatClient("m", server.url, backoff=0.01)
        pool = ChatPool(client, limit=4)
        client.open()
        old = client._transport
        monkeypatch.setattr(client, "_sent", _closing(client, client._sent))
        assert all(isinstance(one, Completion) for one in pool.ask_all([ASKED] * 12))
        assert client._transport is not old
        pool.close()


def _closing(client: ChatClient, sent: Any) -> Any:
    """``sent``, with the client closed right before its first request is."""
    left = [1]

    def closing(sending: Sending, until: float) -> Any:
        if left:
            left.clear()
            transport = client._opened()
            client.close()
            client._transport = transport  # as a thread has it that took it before
            try:
                return sent(sending, until)
            finally:
                client._transport = None
        return sent(sending, until)

    return closing


def test_an_impatient_pool_counts_every_request() -> None:
    require("openai")
    with endpoint("503") as server:
        pool = ChatPool(ChatClient("m", server.url, backoff=0.01), tries=3, patient=False)
        (told,) = pool.ask_all([ASKED])
        pool.close()
        assert isinstance(told, EndpointError)
        assert len(server.requests) == 3
