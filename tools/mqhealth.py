"""``mqhealth HOST:PORT``: ask a broker or a name server whether it does what it is there for.

For health checks of containers and probes of Kubernetes, which run every few seconds beside every
daemon: so it imports next to nothing, and writes its one frame by hand. The request (``HEALTH``,
9000) is answered without a signature, where access control is on as well. A daemon that does not
know it (Java's) says so, which is an answer. Exit codes: 0 healthy; 1 not, with one line on
standard error that says why; 2 a wrong command line.
"""

from __future__ import annotations

import os
import socket
import sys
import time

HEALTH = 9_000
NOT_SUPPORTED = 3
MAX_ANSWER = 65_536
TIMEOUT_S = 5.0
_NEITHER = "what answers is neither a broker nor a name server"
_CLOSED = "the connection was closed without an answer (--tls, if it demands TLS)"
USAGE = f"""Usage: mqhealth [OPTIONS] HOST:PORT

  Ask a broker or a name server whether it does what it is there for.

Options:
  --alive            Any answer will do, also that it takes no messages just now.
  --tls              Speak TLS (tls.server.mode=enforcing); nobody's certificate is looked at. Also
                     where MQADMIN_TLS_CONFIG names a file; of that tls.client.certPath and
                     tls.client.keyPath are shown to who asks for a certificate.
  --timeout SECONDS  For all of it; {TIMEOUT_S:g}.
  --version          Show the version and exit.
  -h, --help         Show this message and exit."""


class UsageError(Exception):
    """The command line."""


class UnhealthyError(Exception):
    """The text says why."""


def main() -> None:
    """From the command line to the exit code."""
    try:
        _run(sys.argv[1:])
    except BrokenPipeError:  # whoever reads what is printed has enough
        sys.exit(0)
    except UsageError as error:
        print(f"mqhealth: {error} (mqhealth -h shows the options)", file=sys.stderr)
        sys.exit(2)
    except (UnhealthyError, OSError) as error:
        print(f"mqhealth: {error}", file=sys.stderr)
        sys.exit(1)
    sys.exit(0)


def _run(arguments: list[str]) -> None:
    """Raises ``UsageError``, ``UnhealthyError``, ``OSError``."""
    address, timeout_s, alive, tls = "", TIMEOUT_S, False, False
    words = iter(arguments)
    for word in words:
        if word in ("-h", "--help"):
            print(USAGE)
            return
        if word == "--version":
            _print_version()
            return
        if word == "--alive":
            alive = True
        elif word == "--tls":
            tls = True
        elif word == "--timeout":
            timeout_s = _seconds(next(words, ""))
        elif word.startswith("-"):
            raise UsageError(f"No such option '{word}'.")
        elif address:
            raise UsageError(f"one address is enough, there is also '{word}'")
        else:
            address = word
    host, port = _host_and_port(address)
    certificate = os.environ.get("MQADMIN_TLS_CONFIG", "")
    check(host, port, timeout_s=timeout_s, alive=alive, tls=tls, tls_config=certificate)


def check(
    host: str, port: int, *, timeout_s: float, alive: bool, tls: bool, tls_config: str = ""
) -> None:
    """Raises ``UnhealthyError`` that says why it is not, ``OSError``, also from the file
    ``tls_config``."""
    deadline = time.monotonic() + timeout_s
    try:
        with socket.create_connection((host, port), timeout_s) as plain:
            if tls or tls_config:
                plain = _encrypted(plain, tls_config)
            with plain:
                header = _exchange(plain, os.getpid(), deadline)
    except TimeoutError:
        raise UnhealthyError(f"{host}:{port} does not answer within {timeout_s:g} s") from None
    except (ConnectionResetError, BrokenPipeError):
        raise UnhealthyError(f"{host}:{port}: {_CLOSED}") from None
    except UnicodeError:
        raise UnhealthyError(f"{host} is no address and no name of a host") from None
    except ConnectionRefusedError:
        raise UnhealthyError(f"{host}:{port}: connection refused: nothing listens there") from None
    if alive or b'"code":0,' in header:
        return
    code, remark = read_answer(header)
    if code not in (0, NOT_SUPPORTED):
        raise UnhealthyError(f"{host}:{port}: {remark or f'code {code}'}")


def read_answer(header: bytes) -> tuple[object, object]:
    """Code and remark. Raises ``UnhealthyError``."""
    import json  # only here: it takes longer than all the rest

    try:
        answer = json.loads(header)
        return answer["code"], answer.get("remark")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UnhealthyError(_NEITHER) from None


def _exchange(connection: socket.socket, opaque: int, deadline: float) -> bytes:
    """The header of the answer. Raises ``UnhealthyError``, ``OSError``."""
    header = b'{"code":%d,"flag":0,"language":"PYTHON","opaque":%d,"version":401}' % (
        HEALTH,
        opaque,
    )
    size = len(header)
    connection.sendall((4 + size).to_bytes(4, "big") + size.to_bytes(4, "big") + header)
    length = int.from_bytes(_read(connection, 4, deadline), "big")
    if not 4 < length <= MAX_ANSWER:
        raise UnhealthyError(_NEITHER)
    frame = _read(connection, length, deadline)
    answer = frame[4 : 4 + int.from_bytes(frame[1:4], "big")]
    if b'"opaque":%d' % opaque not in answer:
        raise UnhealthyError(_NEITHER)
    return answer


def _read(connection: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError
        data += piece
    return data


def _encrypted(plain: socket.socket, tls_config: str) -> socket.socket:
    """Raises ``OSError``."""
    import ssl  # only here

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    found = _properties(tls_config) if tls_config else {}
    if own := found.get("tls.client.certPath"):
        context.load_cert_chain(own, found.get("tls.client.keyPath"))
    return context.wrap_socket(plain)


def _properties(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8") as file:
        pairs = [line.partition("=") for line in file]
    return {name.strip(): value.strip() for name, _, value in pairs}


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 3600:
        raise UsageError(f"--timeout {text!r} is no number of seconds")
    return seconds


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"'{address}' is not HOST:PORT")
    return host.strip("[]"), int(port)


def _print_version() -> None:
    from ..daemon.version import version_text

    print(version_text("mqhealth"))


if __name__ == "__main__":
    main()
