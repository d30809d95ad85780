"""Take serial numbers and other identities out of a recorded machine's texts."""

from __future__ import annotations

import hashlib
import re

#: Serial numbers as XML, JSON and "key : value" text write them; the key names them, whatever their form.
_KEY = r"serial|machine-id|asset|sequence code"
_SERIALS = (
    re.compile(rf"(?i)(<(\w*(?:{_KEY})\w*)>)[^<]*(?=</\2>)"),
    re.compile(rf'(?i)("[^"\n]*(?:{_KEY})[^"\n]*"\s*:\s*")[^"\n]*(?=")'),
    re.compile(rf'(?im)^([^:\n"<]*(?:{_KEY})[^:\n"<]*:[ \t]*)\S.*$'),
)
#: Identities that must stay distinct, since they group devices: UUIDs, AMD's unique ids.
_UUID = re.compile(r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_UNIQUE = re.compile(r'(?i)(\bunique[_ ]id"?[ \t:"]+)(0x)?([0-9a-f]{2,20})\b')


def scrub(text: str) -> str:
    """Return the text without serial numbers, and with UUIDs and unique ids replaced by others made from their hash."""
    for pattern in _SERIALS:
        text = pattern.sub(r"\1[removed]", text)
    text = _UUID.sub(lambda match: _other_uuid(match[0]), text)
    return _UNIQUE.sub(lambda match: f"{match[1]}{match[2] or ''}{_other_number(match[3], bool(match[2]))}", text)


def _digest(text: str) -> str:
    return hashlib.sha256(f"advisor record {text.lower()}".encode()).hexdigest()


def _other_uuid(text: str) -> str:
    digits = _digest(text)
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"


def _other_number(text: str, hexadecimal: bool) -> str:
    if set(text) <= {"0"}:
        return text
    number = int(_digest(text)[:15], 16)
    return f"{number:x}" if hexadecimal or re.search(r"[a-f]", text, re.IGNORECASE) else str(number)
