#!/usr/bin/env python3
"""A user's device in Python, from docs/wire.md alone: it reports one task, follows the
decision, has its part computed on an aircraft, computes the rest, and joins both.

client.py BROKER:PORT FLEET USER CA.crt USER.crt USER.key FILE > OUTPUT

The function is "upper", whose unit is four bytes. A real device would measure its gains,
report a task in every slot that it has one in, and take the standing offer where no
decision comes; without one this client computes locally.
"""
import base64
import json
import socket
import ssl
import struct
import sys
import threading
import time

FUNCTION, UNIT, CYCLES_PER_BIT, CPU_HZ, DEADLINE_S = "upper", 4, 1000.0, 1e9, 1.0


def compute(data):
    return data.upper()


class MQTT:
    """What a user needs of MQTT 3.1.1: clean session, QoS 0 and 1, keep-alive off."""

    def __init__(self, address, client_id):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.id = 0
        self.send(0x10, self.text("MQTT") + b"\x04\x02\x00\x00" + self.text(client_id))
        kind, body = self.receive()
        if kind >> 4 != 2 or body[1] != 0:
            raise OSError("the broker refused the connection")

    @staticmethod
    def text(s):
        return struct.pack(">H", len(s)) + s.encode()

    def send(self, kind, body):
        size, head = len(body), bytes([kind])
        while True:
            size, digit = size >> 7, size & 127
            head += bytes([digit | (128 if size else 0)])
            if not size:
                break
        self.socket.sendall(head + body)

    def exactly(self, n):
        data = b""
        while len(data) < n:
            part = self.socket.recv(n - len(data))
            if not part:
                raise EOFError("the broker closed the connection")
            data += part
        return data

    def receive(self):
        kind, size, shift = self.exactly(1)[0], 0, 0
        while True:
            digit = self.exactly(1)[0]
            size, shift = size | (digit & 127) << shift, shift + 7
            if digit < 128:
                return kind, self.exactly(size)

    def subscribe(self, topic, qos):
        self.id += 1
        self.send(0x82, struct.pack(">H", self.id) + self.text(topic) + bytes([qos]))

    def publish(self, topic, message, qos):
        body = self.text(topic)
        if qos:
            self.id += 1
            body += struct.pack(">H", self.id)
        self.send(0x30 | qos << 1, body + json.dumps(message).encode())

    def messages(self):
        while True:
            kind, body = self.receive()
            if kind >> 4 != 3:
                continue  # acknowledgements
            n = struct.unpack(">H", body[:2])[0]
            topic, rest = body[2 : 2 + n].decode(), body[2 + n :]
            if kind >> 1 & 3:  # QoS 1
                self.send(0x40, rest[:2])
                rest = rest[2:]
            yield topic, json.loads(rest)


def on_aircraft(connection, slot, grant, data):
    """Has data computed; returns its output and the nanoseconds that the worker took."""
    name = FUNCTION.encode()
    connection.sendall(struct.pack("<IIBBBB64s56s", len(data), slot, 1, len(name), 1, 0, name, grant))
    connection.sendall(data)
    with connection.makefile("rb") as answer:
        status, size, ns = struct.unpack("<IIQ", answer.read(16))
        if status:
            raise OSError(f"the worker answered {status}")
        return answer.read(size), ns


def main(broker, fleet, user, ca, certificate, key, path):
    with open(path, "rb") as f:
        task = f.read()
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    root, mqtt = f"prefdt/{fleet}/", MQTT(broker, f"{user}-{time.time_ns()}")
    mqtt.subscribe(root + "slot", 0)
    mqtt.subscribe(root + f"users/{user}/decision", 1)
    slot, workers = None, {}
    for topic, m in mqtt.messages():
        if topic == root + "slot":
            slot = m["slot"]
            workers.update({a["number"]: a["worker"] for a in m["offer"]["aircraft"] if "worker" in a})
            mqtt.publish(root + f"users/{user}/report", {
                "slot": slot, "position_m": [312.0, 844.5], "queue_bits": 0, "cpu_hz": CPU_HZ,
                "task": {"bits": 8 * len(task), "cycles_per_bit": CYCLES_PER_BIT, "deadline_s": DEADLINE_S, "function": FUNCTION}}, 0)
            continue
        if m["slot"] != slot:
            continue
        began, by, there, upload_s = time.monotonic(), "decision", b"", None
        cut = int(m["offload"] * len(task)) // UNIT * UNIT
        rest = []
        own = threading.Thread(target=lambda: rest.append(compute(task[cut:])))
        own.start()
        try:
            if cut:
                host, port = workers[m["aircraft"]].rsplit(":", 1)
                with context.wrap_socket(socket.create_connection((host, int(port)), 3), server_hostname=host) as c:
                    sent = time.monotonic()
                    there, ns = on_aircraft(c, slot, base64.b64decode(m.get("grant", "")).ljust(56, b"\0"), task[:cut])
                    upload_s = max(time.monotonic() - sent - ns * 1e-9, 0)
        except (OSError, KeyError) as problem:
            print(f"slot {slot}: {problem}; computed here", file=sys.stderr)
            by, there = "local", compute(task[:cut])
        own.join()
        result = {"slot": slot, "completion_s": time.monotonic() - began, "by": by}
        if upload_s is not None:
            result["upload_s"] = upload_s
        mqtt.publish(root + f"users/{user}/result", result, 1)
        sys.stdout.buffer.write(there + rest[0])
        return


main(*sys.argv[1:])
