"""Ways to hide a text, for the matrix of places and encodings; written apart from the code that finds it."""

from __future__ import annotations

import base64
import binascii
import bz2
import gzip
import io
import json
import lzma
import tarfile
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable

Hide = Callable[[bytes], bytes]


def tar_of(data: bytes, name: str = "notes.txt") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def zip_of(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("notes.txt", data)
    return out.getvalue()


def loose_object(data: bytes) -> bytes:
    """A git object as git writes it (gitformat: loose object)."""
    return zlib.compress(b"blob %d\0" % len(data) + data)


def wrapped(data: bytes) -> bytes:
    """What the base64 command prints."""
    return base64.encodebytes(data)


ENCODINGS: dict[str, Hide] = {
    "plain": lambda d: d,
    "upper case": lambda d: d.upper(),
    "swapped case": lambda d: d.swapcase(),
    "other white space": lambda d: d.replace(b" ", b"\n\t  "),
    "base64 at 0": lambda d: base64.b64encode(b"" + d + b" and more"),
    "base64 at 1": lambda d: base64.b64encode(b"x" + d + b" and more"),
    "base64 at 2": lambda d: base64.b64encode(b"xy" + d + b" and more"),
    "base64 with line breaks": lambda d: wrapped(b"some words in front " + d + b" and more" * 9),
    "URL-safe base64 at 0": lambda d: base64.urlsafe_b64encode(d + b"\xff\xfe"),
    "URL-safe base64 at 1": lambda d: base64.urlsafe_b64encode(b"\xfb" + d),
    "URL-safe base64 at 2": lambda d: base64.urlsafe_b64encode(b"\xfb\xff" + d),
    "hex": lambda d: b"00" + binascii.hexlify(d),
    "upper-case hex": lambda d: binascii.hexlify(d).upper(),
    "hex with blanks": lambda d: d.hex(" ").encode(),
    "URL": lambda d: urllib.parse.quote(d).encode(),
    "URL, all quoted": lambda d: urllib.parse.quote(d, safe="").encode(),
    "URL of a form": lambda d: urllib.parse.quote_plus(d).encode(),
    "URL, every byte": lambda d: "".join(f"%{b:02X}" for b in d).encode(),
    "reversed": lambda d: d[::-1],
    "UTF-16 little-endian": lambda d: d.decode().encode("utf-16-le"),
    "UTF-16 big-endian": lambda d: d.decode().encode("utf-16-be"),
    "JSON string": lambda d: json.dumps({"a": d.decode()}).encode(),
    "JSON in JSON": lambda d: json.dumps(json.dumps(d.decode())).encode(),
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "zlib, stored": lambda d: zlib.compress(d, 0),
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "tar": tar_of,
    "zip": zip_of,
    "git object": loose_object,
    "gzip of tar": lambda d: gzip.compress(tar_of(d)),
    "base64 of hex": lambda d: base64.b64encode(binascii.hexlify(d)),
    "hex of base64": lambda d: binascii.hexlify(base64.b64encode(d)),
    "base64 of base64": lambda d: base64.b64encode(base64.b64encode(d)),
    "base64 of reversed": lambda d: base64.b64encode(d[::-1]),
    "base64 of UTF-16": lambda d: base64.b64encode(d.decode().encode("utf-16-le")),
    "URL of base64": lambda d: urllib.parse.quote(base64.b64encode(d), safe="").encode(),
    "reversed hex": lambda d: binascii.hexlify(d)[::-1],
    "base64 of gzip": lambda d: base64.b64encode(gzip.compress(d)),
    "base64 of gzip with line breaks": lambda d: wrapped(gzip.compress(d + bytes(range(256)))),
    "URL-safe base64 of zlib": lambda d: base64.urlsafe_b64encode(zlib.compress(d)),
    "base64 of xz": lambda d: base64.b64encode(lzma.compress(d)),
    "hex of gzip": lambda d: binascii.hexlify(gzip.compress(d)),
    "gzip of base64": lambda d: gzip.compress(base64.b64encode(d)),
    "xz of gzip": lambda d: lzma.compress(gzip.compress(d)),
}
