"""Writes tiny.gguf and tiny.f32: one tensor of each encoding and the numbers that the `gguf` package reads from it.

    pip install gguf numpy; python make_fixture.py

tiny.f32 holds, tensor by tensor in the order of names, the float32 numbers of gguf.quants.dequantize. The encodings that the
package cannot write (Q4_K, Q6_K) are random bytes with scales of ordinary size.
"""

import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

HERE = pathlib.Path(__file__).parent
SHAPE = (3, 512)


def random_blocks(rng: np.random.Generator, kind: T) -> np.ndarray:
    """Rows of random blocks, [rows, bytes]; f16 scales in [0.01, 1)."""
    n, n_bytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (SHAPE[0], SHAPE[1] // n, n_bytes), dtype=np.uint8)
    halves = {T.Q4_K: (0, 2), T.Q6_K: (208,)}[kind]
    for at in halves:
        scale = rng.uniform(0.01, 1, blocks.shape[:2]).astype(np.float16)
        blocks[..., at : at + 2] = scale[..., None].view(np.uint8)
    return blocks.reshape(SHAPE[0], -1)


def main() -> None:
    rng = np.random.default_rng(7)
    writer = gguf.GGUFWriter(HERE / "tiny.gguf", "llama")
    writer.add_uint32("test.u32", 4_000_000_000)
    writer.add_int32("test.i32", -7)
    writer.add_uint64("test.u64", 1 << 40)
    writer.add_uint8("test.u8", 200)
    writer.add_float32("test.f32", 0.5)
    writer.add_float64("test.f64", 1e-300)
    writer.add_bool("test.bool", True)
    writer.add_string("test.text", "Grüße")
    writer.add_array("test.texts", ["a", "", "Ġthe"])
    writer.add_array("test.integers", [3, -1, 2])
    writer.add_array("test.reals", [0.25, -2.5])
    expected = {}
    for kind in (T.F32, T.F16, T.BF16, T.Q8_0, T.Q4_0, T.Q4_1, T.Q4_K, T.Q6_K):
        name = f"tensor.{kind.name}"
        if kind in (T.Q4_K, T.Q6_K):
            data = random_blocks(rng, kind)
        else:
            data = gguf.quants.quantize(rng.normal(size=SHAPE).astype(np.float32), kind)
        expected[name] = gguf.quants.dequantize(data, kind).astype(np.float32).reshape(SHAPE)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (HERE / "tiny.f32").write_bytes(b"".join(expected[n].tobytes() for n in sorted(expected)))


if __name__ == "__main__":
    main()
