"""What the server refuses, and how it ends."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from server.conftest import Server, start, stop

FIRST = {"Q": [[1, 0]], "K": [[1, 0], [0, 1]], "V": [[1, 0], [0, 1]], "scale": 1}


def raw(server: Server, text: str) -> str:
    """What the server answers to bytes that no library would send."""
    parts = urlsplit(server.address)
    with socket.create_connection((parts.hostname, parts.port), 20) as sock:
        sock.sendall(text.encode())
        sock.settimeout(20)
        answer = b""
        while chunk := sock.recv(65536):
            answer += chunk
            if b"\r\n\r\n" in answer and b"Connection: close" not in text.encode():
                break
    return answer.decode(errors="replace")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil@127.0.0.1",
        "127.0.0.1\r\nHost: evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "",
        "[::1",
        "127.0.0.1:1",
    ],
)
def test_a_foreign_host_is_refused(server: Server, host: str) -> None:
    answer = raw(server, f"GET /api/exercises HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
    assert answer.split()[1] in ("400", "403")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://localhost:1", "http://[::1"]
)
def test_a_foreign_origin_is_refused(server: Server, origin: str) -> None:
    status, problem = server.ask("POST", "api/paper", {"exercise": FIRST}, {"Origin": origin})
    assert status == 403
    assert "may not use this server" in problem["fact"]


def test_two_origins_are_refused(server: Server) -> None:
    own = urlsplit(server.address).netloc
    headers = f"Host: {own}\r\nOrigin: http://evil.example\r\nOrigin: http://{own}\r\nConnection: close\r\n\r\n"
    assert " 400 " in raw(server, f"GET /api/exercises HTTP/1.1\r\n{headers}").split("\r\n")[0]


def test_websockets_lead_nowhere_else(server: Server) -> None:
    own = urlsplit(server.address).netloc
    for path in ("/paper.js", "/api/paper", "/api/none"):
        assert " 403 " in handshake(server, f"Host: {own}\r\n", path)


def handshake(server: Server, headers: str, path: str = "/api/live") -> str:
    """The status line that a WebSocket handshake with these headers gets."""
    opening = f"GET {path} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    answer = raw(server, f"{opening}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n")
    return answer.split("\r\n")[0]


def test_websockets_check_host_and_origin(server: Server) -> None:
    own = urlsplit(server.address).netloc
    assert " 101 " in handshake(server, f"Host: {own}\r\nOrigin: http://{own}\r\n")
    assert " 101 " in handshake(server, f"Host: {own}\r\n")  # a program, not a page
    for origin in ("http://evil.example", "null", "http://localhost:1", f"http://{own}.evil.example"):
        assert " 403 " in handshake(server, f"Host: {own}\r\nOrigin: {origin}\r\n")
    for host in ("evil.example", f"{own}.evil.example", "127.0.0.1:1"):
        assert " 403 " in handshake(server, f"Host: {host}\r\nOrigin: http://{host}\r\n")


def test_its_own_origin_is_served(server: Server) -> None:
    status, _ = server.ask("POST", "api/paper", {"exercise": FIRST}, {"Origin": server.address.rstrip("/")})
    assert status == 200


@pytest.mark.parametrize(
    "path", ["../settings.py", "..%2f..%2fapp.py", "%2e%2e/app.py", "static/../../app.py", "//etc/passwd", "vendor/"]
)
def test_files_outside_the_page_cannot_be_read(server: Server, path: str) -> None:
    answer = raw(server, f"GET /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert answer.split()[1] in ("404", "400")


def test_headers_forbid_inline_script_and_other_origins(server: Server) -> None:
    parts = urlsplit(server.address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    connection.request("GET", "/")
    response = connection.getresponse()
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    response.read()
    connection.close()


def test_a_large_request_is_refused_with_its_limit(server: Server) -> None:
    parts = urlsplit(server.address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    connection.putrequest("POST", "/api/paper")
    connection.putheader("content-length", str(1 << 30))
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == 413
    assert "16,777,216 bytes" in json.loads(response.read())["remedy"]
    connection.close()


def test_a_large_exercise_is_refused_with_its_limit(server: Server) -> None:
    status, problem = server.ask("POST", "api/paper", {"exercise": {"text": "x" * 300_000}})
    assert status == 422
    assert "200,000 bytes" in problem["remedy"]


def test_a_request_that_grows_in_chunks_is_refused(server: Server) -> None:
    parts = urlsplit(server.address)
    opening = f"POST /api/paper HTTP/1.1\r\nHost: {parts.netloc}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    with socket.create_connection((parts.hostname, parts.port), 20) as sock:
        sock.sendall(opening)
        try:
            for _ in range(40):
                sock.sendall(chunk)
        except OSError:
            pass  # it hung up
        else:
            raise AssertionError("40 MB were taken")
    assert server.ask("GET", "api/exercises")[0] == 200


@pytest.mark.slow
def test_slow_headers_do_not_hold_up_others(server: Server) -> None:
    parts = urlsplit(server.address)
    slow = [socket.create_connection((parts.hostname, parts.port), 20) for _ in range(50)]
    try:
        for sock in slow:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: 127")
        assert server.ask("POST", "api/paper", {"exercise": FIRST})[0] == 200
        assert b" 408 " in slow[0].recv(1000)
    finally:
        for sock in slow:
            sock.close()


@pytest.mark.slow
def test_a_slow_request_is_refused(server: Server) -> None:
    text = "POST /api/paper HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{"
    assert raw(server, text).split()[1] == "408"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"exercise": {"Q": [["9^9^9^9"]], "K": [[1]], "V": [[1]]}}, ""),
        ({"exercise": {"Q": [[1]], "K": [[1]]}}, ""),
        ({"exercise": {}}, ""),
        ({"exercise": FIRST, "more": 1}, "more"),
        ({"exercise": {**FIRST, "scale": "__import__('os')"}}, ""),
        ({"exercise": {**FIRST, "title": "\ud800"}}, "surrogate"),
        ({"exercise": {"Q": [[1] * 64] * 64, "K": [[1] * 64] * 64, "V": [[1] * 64] * 64}}, "at most 2,000"),
    ],
)
def test_a_wrong_exercise_is_a_422_in_words(server: Server, body: Any, words: str) -> None:
    status, problem = server.ask("POST", "api/paper", body)
    assert status == 422
    assert words in f"{problem['fact']}: {problem['remedy']}"


def test_what_is_no_json_is_a_400(server: Server) -> None:
    assert server.ask("POST", "api/paper", b"{")[0] == 400


def test_another_address_needs_its_token() -> None:
    running = start("--host", "0.0.0.0")
    try:
        parts = urlsplit(running.address)
        assert parts.query.startswith("token=")
        bare = Server(f"http://127.0.0.1:{parts.port}/", running.process)
        assert bare.ask("GET", "api/exercises")[0] == 401
        assert bare.ask("GET", "api/exercises?token=wrong")[0] == 401
        assert bare.ask("GET", f"api/exercises?{parts.query}")[0] == 200
        cookie = {"Cookie": f"glassformer={parts.query.removeprefix('token=')}"}
        assert bare.ask("GET", "api/exercises", headers=cookie)[0] == 200
    finally:
        stop(running)


def test_ctrl_c_ends_the_server_and_its_workers() -> None:
    import psutil

    running = start()
    running.ask("POST", "api/paper", {"exercise": FIRST})
    workers = psutil.Process(running.process.pid).children(recursive=True)
    assert workers
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(20) in (0, 130, -signal.SIGINT)
    assert running.process.stdout is not None
    said = running.process.stdout.read()
    running.process.stdout.close()
    assert "Traceback" not in said
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive


def test_a_client_that_goes_away_frees_its_work(server: Server) -> None:
    """Two abandoned requests that take long occupy both workers; a third is answered all the same."""
    parts = urlsplit(server.address)
    long = {"topic": "attention", "level": "easy", "tokens": 8, "width": 8, "heads": 4, "seed": 1}
    for seed in (1, 2):
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        body = json.dumps({**long, "seed": seed})
        connection.request("POST", "/api/practice", body, {"content-type": "application/json"})
        time.sleep(0.3)
        connection.close()
    assert server.ask("POST", "api/paper", {"exercise": FIRST})[0] == 200


def test_a_wrong_address_is_a_page_for_a_person_and_json_for_a_program(server: Server) -> None:
    status, page = server.ask("GET", "nothing", headers={"Accept": "text/html,*/*"})
    assert status == 404
    assert "<h1>There is no such page</h1>" in page
    assert server.ask("GET", "nothing")[1]["fact"] == "there is no such page"
    assert server.ask("GET", "api/nothing", headers={"Accept": "text/html"})[1]["fact"] == "there is no such page"
    answer = raw(server, "GET / HTTP/1.1\r\nHost: <b>.example\r\nAccept: text/html\r\nConnection: close\r\n\r\n")
    assert "&lt;b&gt;.example" in answer
    assert "<b>" not in answer
