"""The names of the authorities that a listener trusts, which it sends to clients when it asks for a certificate.

By them a client with several certificates chooses one, and a client with a certificate of another authority sends
none, which `ssl.client.auth=requested` lets in. Java sends them; Python's `ssl` has no call for it. OpenSSL has, so it
is called on the SSL_CTX that an `ssl.SSLContext` holds.

    the library    the one with which the module `_ssl` is linked: its symbols are looked up through that module
    the pointer    behind the head of the object, in each CPython from 3.6 on

Nothing of this is promised by Python, so it is proved on each context before it is used: memory can be read where the
pointer points to, and what Python sets in the context (options, and whether certificates are verified) is what OpenSSL
reads there, each time that it is changed. Otherwise `CannotName` says why, and names are not sent. Source: OpenSSL's
manual, SSL_CTX_set_client_CA_list(3); RFC 8446 4.2.4, RFC 5246 7.4.4.
"""

from __future__ import annotations

import os
import platform
import ssl
import struct
import sysconfig
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ctypes

_MAX_BYTES: Final = 0xFFFF
"""Of all names with their lengths: a message has no room for more, and a handshake with more fails."""
_READ_BYTES: Final = 1024
"""An SSL_CTX is at least as large, and has the fields that are read to prove the pointer in this part."""
_OPTIONS: Final = (ssl.OP_NO_TICKET, ssl.OP_CIPHER_SERVER_PREFERENCE, ssl.OP_NO_COMPRESSION)
_VERIFY_MODES: Final = {ssl.CERT_NONE: 0, ssl.CERT_OPTIONAL: 1, ssl.CERT_REQUIRED: 3}
"""Python's modes, and OpenSSL's numbers (SSL_VERIFY_NONE, PEER, PEER with FAIL_IF_NO_PEER_CERT)."""


class CannotName(Exception):
    """The names cannot be sent; the text says why."""


def name_authorities(context: ssl.SSLContext, path: str, subjects: Iterable[bytes]) -> None:
    """Send the clients of a context the subjects of the certificates in the PEM file at `path`. Raise CannotName.

    `subjects` are those names in DER: a message has no room for more than 65,535 bytes of them.
    """
    length = sum(2 + len(subject) for subject in set(subjects))
    if length > _MAX_BYTES:
        raise CannotName(
            f"the names of the trusted authorities take {length} bytes, and a handshake has room for {_MAX_BYTES}"
        )
    library = openssl()
    pointer = pointer_of(library, context)
    names = library.SSL_load_client_CA_file(os.fsencode(path))
    if not names:
        library.ERR_clear_error()  # or the next call of `ssl` on this thread would report it
        raise CannotName("OpenSSL reads no certificate in the trust store")
    library.SSL_CTX_set_client_CA_list(pointer, names)  # which takes the list over


@cache
def openssl() -> ctypes.CDLL:
    """Return the libraries of OpenSSL that `ssl` uses. Raise CannotName."""
    import _ssl

    fault = _unknown_interpreter() or (
        None if getattr(_ssl, "__file__", None) else "OpenSSL is built into this interpreter"
    )
    if fault is not None:
        raise CannotName(fault)
    try:
        import ctypes

        library = ctypes.CDLL(_ssl.__file__)
        _declare(library, ctypes)
    except (ImportError, OSError, AttributeError) as error:
        raise CannotName(f"OpenSSL cannot be called: {error}") from None
    if library.OpenSSL_version_num() != ssl.OPENSSL_VERSION_NUMBER:
        raise CannotName("there is another OpenSSL than that of Python's ssl")
    return library


def _unknown_interpreter() -> str | None:
    """Return why an object of this interpreter may be laid out in another way, None if it is the known one."""
    if platform.python_implementation() != "CPython":
        return f"{platform.python_implementation()} lays objects out in another way than CPython"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "Python without its lock (GIL) lays objects out in another way"
    if struct.calcsize("P") != 8:
        return "only 64-bit systems are known"
    return None


def _declare(library: ctypes.CDLL, ctypes: Any) -> None:
    """Declare the functions. Raise AttributeError where one is missing."""
    pointer = ctypes.c_void_p
    for name, result, arguments in (
        ("OpenSSL_version_num", ctypes.c_ulong, ()),
        ("ERR_clear_error", None, ()),
        ("SSL_CTX_get_options", ctypes.c_uint64, (pointer,)),
        ("SSL_CTX_get_verify_mode", ctypes.c_int, (pointer,)),
        ("SSL_load_client_CA_file", pointer, (ctypes.c_char_p,)),
        ("SSL_CTX_set_client_CA_list", None, (pointer, pointer)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def pointer_of(
    library: ctypes.CDLL, context: ssl.SSLContext, position: int = object.__basicsize__
) -> int:
    """Return the address of the context's SSL_CTX, which is at `position` of the object, proved to be one.

    Raise CannotName.
    """
    import ctypes

    held = ctypes.c_void_p.from_address(id(context) + position)
    pointer = held.value or 0
    if pointer % struct.calcsize("P") or not _is_readable(ctypes, pointer):
        raise CannotName("this Python keeps OpenSSL's contexts in another way")
    if not (_shows_options(library, context, pointer) and _shows_mode(library, context, pointer)):
        raise CannotName("this Python keeps OpenSSL's contexts in another way: settings differ")
    return pointer


def _is_readable(ctypes: Any, address: int) -> bool:
    """Return whether there is memory at an address: the kernel reads it, and refuses where a process would end."""
    reader, writer = os.pipe()
    try:
        write = ctypes.CDLL(None, use_errno=True).write
        write.restype = ctypes.c_ssize_t
        write.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
        return bool(write(writer, address, _READ_BYTES) == _READ_BYTES)
    finally:
        os.close(reader)
        os.close(writer)


def _shows_options(library: ctypes.CDLL, context: ssl.SSLContext, pointer: int) -> bool:
    """Return whether OpenSSL reads each option there that Python sets, and leave them as they were."""
    before = context.options
    try:
        for option in _OPTIONS:
            context.options ^= option
            if library.SSL_CTX_get_options(pointer) != context.options:
                return False
    finally:
        context.options = before
    return bool(library.SSL_CTX_get_options(pointer) == before)


def _shows_mode(library: ctypes.CDLL, context: ssl.SSLContext, pointer: int) -> bool:
    """Return whether OpenSSL reads there how Python verifies certificates, and leave it as it was."""
    before = context.verify_mode
    try:
        for mode, number in _VERIFY_MODES.items():
            context.verify_mode = mode
            if library.SSL_CTX_get_verify_mode(pointer) != number:
                return False
    finally:
        context.verify_mode = before
    return True
