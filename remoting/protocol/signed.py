"""What of a request its ACL signature is about (``remoting.md`` §1.8; classes AclClientRPCHook,
AclUtils): the values of its fields and its body, not its code, nor the names of the fields (quirk
``SIGNED_VALUES``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
"""The original's client signs it and its broker does not, so such a request never passes
(quirk ``SIGNED_UNIQUE_KEY_QUERY``)."""
UNSIGNED: Final = (SIGNATURE, UNIQUE_KEY_QUERY)

Signed = tuple[str, bytes, bytes]
"""Access key, signature, and what has to be signed in front of the body."""


def signed_content(ext_fields: Mapping[str, str], unsigned: Collection[str] = UNSIGNED) -> bytes:
    """The values of the fields in the order of their names, which are sorted as Java sorts text, by
    UTF-16 code units."""
    names = [name for name in ext_fields if name not in unsigned]
    if "".join(names).isascii():
        names.sort()  # the usual case, three times as fast
    else:
        names.sort(key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return "".join([ext_fields[name] for name in names]).encode()


def signed_of(ext_fields: Mapping[str, str]) -> Signed | None:
    """``None`` when somebody has not signed, or it is not certain what (``UNIQUE_KEY_QUERY``)."""
    access_key, signature = ext_fields.get(ACCESS_KEY), ext_fields.get(SIGNATURE)
    if access_key is None or signature is None or UNIQUE_KEY_QUERY in ext_fields:
        return None
    return access_key, signature.encode(), signed_content(ext_fields)
