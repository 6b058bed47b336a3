"""A server that cannot be reached or does not answer: what that is, and what to do. Pure."""

from __future__ import annotations

import ipaddress
from typing import Final

from .finding import Finding, unseen, wrong
from .seen import Kind, Seen, Server, Speech, Trouble

_ACCOUNT: Final = (
    "give an account of the brokers: accessKey and secretKey in conf/tools.yml below "
    "ROCKETMQ_HOME, or the variables ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY"
)
_TLS: Final = (
    "give --tlsConfig a file with properties tls.client.*; clients get tls=ssl.SSLContext, or "
    "tls.enable=true in Java"
)
_PLAIN: Final = (
    "leave --tlsConfig out and tls= of clients, or give the server tls.server.certPath and "
    "tls.server.keyPath"
)
_NAME: Final = {
    "name server": "correct the name, or this machine's DNS or /etc/hosts",
    "broker": "it is what the broker registered: set its brokerIP1 to a name or an address that "
    "its clients know (names of containers are known among containers), or run clients in that "
    "network",
}
_START: Final = {
    "name server": "start one there (mqnamesrv), or take this address out of -n, NAMESRV_ADDR and "
    "namesrvAddr of the brokers",
    "broker": "start it again (mqbroker); its own log says why it ended",
}


def of_server(seen: Seen, role: str, place: str, server: Server) -> list[Finding]:
    """``role``: ``name server`` or ``broker``. Nothing where it answers."""
    if (trouble := server.trouble) is None:
        return []
    if server.speaks is Speech.TLS:
        return [wrong(place, "it speaks TLS only, and was spoken to without", _TLS)]
    if server.speaks is Speech.PLAIN:
        return [wrong(place, "it does not speak TLS, and was spoken to with", _PLAIN)]
    what, to_do = _texts(seen, role, server.address, trouble)
    return [wrong(place, what, to_do)]


def _texts(seen: Seen, role: str, address: str, trouble: Trouble) -> tuple[str, str]:
    """What, and what to do."""
    said = f" ({trouble.text})" if trouble.text else ""
    texts = {
        Kind.NO_ADDRESS: (f"'{address}' is no address", "it must look like host:port"),
        Kind.UNKNOWN_HOST: (
            f"this machine does not know the name of the host{said}",
            _NAME[role],
        ),
        Kind.REFUSED: (
            "nothing listens there: the connection is refused",
            _START[role],
        ),
        Kind.NO_WAY: (f"no connection to it{said}", _way_to(role, address)),
        Kind.CERTIFICATE: (
            f"TLS fails at a certificate{said}",
            "give tls.client.trustCertPath the authority that signed the server's certificate, and "
            "tls.client.certPath where the server asks for one",
        ),
        Kind.NO_HANDSHAKE: (
            f"TLS is not answered{said}",
            f"see whether a {role} listens at that port, and whether it has tls.server.certPath",
        ),
        Kind.SILENT: (
            f"it takes connections and answers nothing within {seen.timeout_s:g} s",
            f"it hangs, has too much to do, or is no {role}: look at its machine; --timeout waits "
            "longer",
        ),
        Kind.CLOSED: (
            f"it ends the connection in the place of an answer{said}",
            f"see whether a {role} listens at that port; its log says why it closed",
        ),
        Kind.NONSENSE: (
            f"what it answers cannot be read{said}",
            f"see whether that is a {role} of RocketMQ at all, and a port for clients",
        ),
    }
    return texts.get(trouble.kind, (f"it does not answer as it should{said}", _START[role]))


def _way_to(role: str, address: str) -> str:
    if role == "broker" and (kind := private_kind(address)):
        return (
            f"that is {kind}: set brokerIP1 of the broker to an address that its clients reach "
            "(in a container: that of its host, with the ports published), or run clients in that "
            "network"
        )
    return "see whether the machine is up, and what firewalls between here and there let through"


def private_kind(address: str) -> str | None:
    """What a network that not everybody is in calls it; ``None`` for all others."""
    ip = ip_of(address)
    if ip is None:
        return None
    if ip.is_link_local:
        return "an address that a machine gave itself"
    if ip in _DOCKER:
        return "an address of the kind that Docker gives containers"
    return "an address of a private network" if ip.is_private else None


_DOCKER: Final = ipaddress.ip_network("172.16.0.0/12")


def ip_of(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Of ``ip:port``; ``None`` for a name."""
    try:
        return ipaddress.ip_address(address.rpartition(":")[0].removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def of_access(seen: Seen, place: str, trouble: Trouble) -> Finding:
    """A broker's access control refused to answer."""
    said = trouble.text
    if not seen.signed or "No accessKey" in said:
        return wrong(place, "it wants an account, and requests are not signed", _ACCOUNT)
    if "No acl config" in said:
        return wrong(
            place,
            "it does not know this access key",
            "correct the key, or make the account: mqadmin updateAclConfig",
        )
    if "Check signature failed" in said:
        return wrong(
            place,
            "it knows this access key, but the signature is wrong: the secret key is another one "
            "there",
            "correct the secret key (blanks and quotes count); clocks play no part in it",
        )
    return wrong(
        place,
        f"its access control refuses this account ({said})",
        "give the account that right (mqadmin updateAclConfig), or use another one",
    )


def not_told(place: str, of_what: str, trouble: Trouble) -> Finding:
    """Something was asked for and there is no answer: what cannot be said therefore."""
    if trouble.kind is Kind.UNSUPPORTED:
        why = "it does not know that request"
    elif trouble.kind is Kind.ACCESS:
        why = "it tells that to administrators only" if "admin" in trouble.text else trouble.text
    else:
        why = trouble.text
    return unseen(place, f"{of_what}: {why}")
