"""Writes query_keys.json: the query key's recipe in another language, with another BLAKE3 binding.

pip install blake3; python3 query_keys.py > query_keys.json
Normal forms are written by hand here: they are the rule, not what the code happened to say.
"""
import json
import struct

from blake3 import blake3

VERSION = 1


def derived(purpose, secret):
    return blake3(secret, derive_key_context=f"hopcache 2026-11-21 {purpose}").digest()


def digest(key, parts):
    hasher = blake3(key=key)
    hasher.update(bytes([VERSION]))
    for part in parts:
        hasher.update(struct.pack("<Q", len(part)))
        hasher.update(part)
    return hasher.digest()


def pack(value):
    """PackStream, shortest form, maps sorted by the key's bytes, one NaN."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        if -16 <= value <= 127:
            return struct.pack(">b", value)
        for marker, form, bits in ((0xC8, ">b", 8), (0xC9, ">h", 16), (0xCA, ">i", 32), (0xCB, ">q", 64)):
            if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
                return bytes([marker]) + struct.pack(form, value)
    if isinstance(value, float):
        return b"\xc1" + (b"\x7f\xf8" + bytes(6) if value != value else struct.pack(">d", value))
    if isinstance(value, str):
        text = value.encode()
        head = bytes([0x80 | len(text)]) if len(text) < 16 else bytes([0xD0, len(text)])
        return head + text
    if isinstance(value, list):
        return bytes([0x90 | len(value)]) + b"".join(map(pack, value))
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: pair[0].encode())
        return bytes([0xA0 | len(value)]) + b"".join(pack(key) + pack(item) for key, item in pairs)
    raise TypeError(value)


def vector(statement, normal, params, database="neo4j", scheme="basic", user="neo4j", impersonated=None, secret=""):
    key = secret.encode()
    acts = [b"self", b""] if impersonated is None else [b"other", impersonated.encode()]
    scope = digest(derived("principal scope", key), [scheme.encode(), user.encode(), *acts])
    name = database.lower().encode()
    tag = struct.unpack("<Q", digest(derived("database tag", key), [name])[:8])[0]
    parts = [name, scope, normal.encode(), pack(params)]
    return {
        "secret": secret, "database": database, "scheme": scheme, "user": user, "impersonated": impersonated,
        "statement": statement, "params_hex": pack(params).hex(), "normal_form": normal, "scope": scope.hex(),
        "database_tag": f"{tag:016x}", "query_key": digest(derived("query key", key), parts).hex(),
    }


ONE = ("RETURN $x AS x", "RETURN $x AS x")
VECTORS = [
    vector("RETURN 1", "RETURN 1", {}),
    vector(" RETURN  1 ;", "RETURN 1", {}, database="Neo4J"),
    vector("RETURN  1  + 1", "RETURN 1  + 1", {}),
    vector("MATCH ( n:User {id: $id} ) // one\nRETURN n . name  AS name", "MATCH(n:User{id: $id})RETURN n . name AS name", {"id": 7}),
    vector("RETURN 'é😀' AS x", "RETURN 'é😀' AS x", {}, secret="a cluster's secret"),
    vector(*ONE, {"x": 1}),
    vector(*ONE, {"x": 1.0}),
    vector(*ONE, {"x": "1"}),
    vector(*ONE, {"x": True}),
    vector(*ONE, {"x": None}),
    vector(*ONE, {"x": ""}),
    vector(*ONE, {"x": -0.0}),
    vector(*ONE, {"x": float("nan")}),
    vector(*ONE, {"x": 2**63 - 1}),
    vector(*ONE, {"x": -(2**63)}),
    vector(*ONE, {"x": {"b": [1, -17, 128, 40_000, 3_000_000_000], "a": {}, "é": [], "": None}}),
    vector(*ONE, {"x": 1}, user="alice", impersonated="bob"),
    vector(*ONE, {"x": 1}, user="bob", impersonated="alice"),
    vector(*ONE, {"x": 1}, user="alice", impersonated=""),
    vector(*ONE, {"x": 1}, scheme="bearer", user="token"),
    vector(*ONE, {"x": 1}, scheme="none", user="", database="movies.2024"),
]
print("[\n" + ",\n".join("  " + json.dumps(one) for one in VECTORS) + "\n]")
