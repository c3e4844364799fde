"""An excerpt of Banking77, and a fast stand-in for a sentence model."""

from pathlib import Path

DATA = Path(__file__).parent / "data" / "banking77"
COUNTING_WORDS = "counting_words:embed"
EMBEDDER = """
import numpy as np

def embed(texts):
    rows = np.zeros((len(texts), 64), dtype=np.float32)
    for row, text in zip(rows, texts):
        for word in text.lower().split():
            row[sum(map(ord, word)) % 64] += 1.0
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
"""


def copy_excerpt(folder: Path) -> None:
    """Copied, since vectors are kept beside the data. Its folder must be the current one."""
    for name in ("train.csv", "test.csv"):
        (folder / name).write_bytes((DATA / name).read_bytes())
    (folder / "counting_words.py").write_text(EMBEDDER)
