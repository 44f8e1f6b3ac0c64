#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""models.py DIR: makes small models of random numbers: llama.gguf for llama.cpp, whisper.bin for whisper.cpp, and two seconds of sound for
it, sound.wav. What they say makes no sense, but is the same each time."""
import array
import math
import os
import random
import struct
import sys
import wave

chance = random.Random(1)
POOL = [chance.gauss(0, 1) for _ in range(100003)]
taken = 0


def numbers(count, scale):
    """The next COUNT numbers of a pool, which repeats, as bytes."""
    global taken
    out = array.array("f")
    while len(out) < count:
        at = taken % len(POOL)
        part = POOL[at:at + count - len(out)]
        out.extend(array.array("f", [x * scale for x in part]))
        taken += len(part)
    return out.tobytes()


def ones(count):
    return array.array("f", [1.0] * count).tobytes()


def llama(path, width=128, layers=1):
    """GGUF, version 3 (ggml, docs/gguf.md)."""
    heads, inner = width // 64, width * 2
    vocabulary = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    tensors = {}

    def matrix(name, columns, rows):
        tensors[name] = ((columns, rows), numbers(columns * rows, columns ** -0.5))

    def vector(name):
        tensors[name] = ((width,), ones(width))

    matrix("token_embd.weight", width, len(vocabulary))
    vector("output_norm.weight")
    matrix("output.weight", width, len(vocabulary))
    for i in range(layers):
        for name in "attn_norm", "ffn_norm":
            vector(f"blk.{i}.{name}.weight")
        for name in "attn_q", "attn_k", "attn_v", "attn_output":
            matrix(f"blk.{i}.{name}.weight", width, width)
        matrix(f"blk.{i}.ffn_gate.weight", width, inner)
        matrix(f"blk.{i}.ffn_up.weight", width, inner)
        matrix(f"blk.{i}.ffn_down.weight", inner, width)

    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()

    kinds = {int: (4, lambda v: struct.pack("<I", v)), float: (6, lambda v: struct.pack("<f", v)), str: (8, text)}

    def pack(value):
        if not isinstance(value, list):
            kind, to_bytes = kinds[type(value)]
            return struct.pack("<I", kind) + to_bytes(value)
        kind, to_bytes = kinds[type(value[0])]
        return struct.pack("<IIQ", 9, kind, len(value)) + b"".join(map(to_bytes, value))

    keys = {
        "general.architecture": "llama", "general.alignment": 32, "general.file_type": 0,
        "llama.context_length": 512, "llama.embedding_length": width, "llama.block_count": layers,
        "llama.feed_forward_length": inner, "llama.attention.head_count": heads, "llama.attention.head_count_kv": heads,
        "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.dimension_count": 64, "llama.vocab_size": len(vocabulary),
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": vocabulary, "tokenizer.ggml.scores": [0.0] * len(vocabulary),
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256, "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    kinds_of = {"tokenizer.ggml.token_type": 5}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for key, value in keys.items():
        packed = pack(value)
        if key in kinds_of:
            packed = packed[:4] + struct.pack("<I", kinds_of[key]) + packed[8:]
        head += text(key) + packed
    data = b""
    for name, (shape, content) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += content + b"\0" * (-len(content) % 32)
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + data)


def whisper(path, width=64, layers=4, inner=4):
    """whisper.cpp's own format, as its whisper_model_load reads it. It looks for the first three tokens by name."""
    tokens, mels, sound, words = 51864, 80, 1500, 448
    out = struct.pack("<I11i", 0x67676D6C, tokens, sound, width, 1, layers, words, width, 1, layers, mels, 0)
    out += struct.pack("<ii", mels, 201) + b"".join(
        array.array("f", [0.02 if k * 2.5 <= j < k * 2.5 + 5 else 0.0 for j in range(201)]).tobytes() for k in range(mels))
    out += struct.pack("<i", 50256) + b"".join(struct.pack("<I", len(t)) + t for t in [b" -", b" '", b" "] + [b" w%d" % i for i in range(50253)])
    parts = [out]

    def tensor(name, *shape, one=False):
        count = math.prod(shape)
        content = ones(count) if one else numbers(count, shape[0] ** -0.5)
        parts.append(struct.pack(f"<3i{len(shape)}i", len(shape), len(name), 0, *shape) + name.encode() + content)

    def norm(name):
        tensor(name + ".weight", width, one=True)
        tensor(name + ".bias", width)

    def attention(name):
        norm(name + "_ln")
        for part in "query", "key", "value", "out":
            tensor(f"{name}.{part}.weight", width, width)
            if part != "key":
                tensor(f"{name}.{part}.bias", width)

    for side, context in ("encoder", sound), ("decoder", words):
        tensor(f"{side}.positional_embedding", width, context)
        for i in range(layers):
            block = f"{side}.blocks.{i}"
            attention(block + ".attn")
            if side == "decoder":
                attention(block + ".cross_attn")
            norm(block + ".mlp_ln")
            tensor(block + ".mlp.0.weight", width, inner * width)
            tensor(block + ".mlp.0.bias", inner * width)
            tensor(block + ".mlp.2.weight", inner * width, width)
            tensor(block + ".mlp.2.bias", width)
    tensor("encoder.conv1.weight", 3, mels, width)
    tensor("encoder.conv1.bias", 1, width)
    tensor("encoder.conv2.weight", 3, width, width)
    tensor("encoder.conv2.bias", 1, width)
    norm("encoder.ln_post")
    tensor("decoder.token_embedding.weight", width, tokens)
    norm("decoder.ln")
    with open(path, "wb") as f:
        f.writelines(parts)


def tone(path):
    with wave.open(path, "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(16000)
        w.writeframes(array.array("h", [int(8000 * math.sin(i * i / 40000)) for i in range(32000)]).tobytes())


llama(os.path.join(sys.argv[1], "llama.gguf"))
whisper(os.path.join(sys.argv[1], "whisper.bin"))
tone(os.path.join(sys.argv[1], "sound.wav"))
