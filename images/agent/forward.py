"""The only way out of the agent's container: a loopback port that leads to the gateway's Unix socket.

Copies bytes both ways and reads none of them. Also answers name look-ups on loopback: with "no such name"
always, and each name is reported to the gateway, because nothing here has a reason to ask. Standard
library only; runs as the agent's own user, so the agent can end it and gains nothing by that.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading

READ_BYTES = 65_536
DNS_PORT = 53


def pump(source: socket.socket, target: socket.socket) -> None:
    """Copies one direction to its end, then closes that direction."""
    with contextlib.suppress(OSError):
        while data := source.recv(READ_BYTES):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def carry(client: socket.socket, path: str) -> None:
    """Carries one connection to the gateway and back."""
    gateway = socket.socket(socket.AF_UNIX)
    with client, gateway:
        try:
            gateway.connect(path)
        except OSError:
            return
        up = threading.Thread(target=pump, args=(client, gateway), daemon=True)
        up.start()
        pump(gateway, client)
        # The answer has ended: a client that still sends has nobody to send to.
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        up.join()


def asked_name(query: bytes) -> tuple[str, int]:
    """Returns the name of a DNS query and where its question ends (RFC 1035, 4.1.2)."""
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace"))
        at += query[at] + 1
    return ".".join(labels), at + 5


def report(path: str, name: str) -> None:
    """Tells the gateway that a name was asked for."""
    body = name.encode()
    head = f"POST /-/lookup HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    gateway = socket.socket(socket.AF_UNIX)
    with gateway, contextlib.suppress(OSError):
        gateway.settimeout(10)
        gateway.connect(path)
        gateway.sendall(head.encode() + body)
        while gateway.recv(READ_BYTES):
            pass


def resolve(udp: socket.socket, path: str) -> None:
    """Answers every query with NXDOMAIN and reports it first, so that no report is lost."""
    while True:
        query, sender = udp.recvfrom(4096)
        try:
            name, end = asked_name(query)
        except IndexError:
            continue
        report(path, name)
        # Response, recursion available, NXDOMAIN; the question and nothing else.
        head = query[:2] + b"\x81\x83\x00\x01" + bytes(6)
        with contextlib.suppress(OSError):
            udp.sendto(head + query[12:end], sender)


def main() -> int:
    """Serves until the container ends."""
    path, port = sys.argv[1], int(sys.argv[2])
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", DNS_PORT))
    tcp = socket.create_server(("127.0.0.1", port), backlog=256)
    probe = socket.socket(socket.AF_UNIX)
    with probe:
        probe.connect(path)
    threading.Thread(target=resolve, args=(udp, path), daemon=True).start()
    print("ready", flush=True)
    while True:
        client, _ = tcp.accept()
        threading.Thread(target=carry, args=(client, path), daemon=True).start()


if __name__ == "__main__":
    raise SystemExit(main())
