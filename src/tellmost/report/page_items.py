"""What a page shows of rows and targets beside their numbers: texts, and small images."""

import base64
from contextlib import closing
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tellmost.evaluation.statistics import count_of
from tellmost.rows.sources import HeldRows, NamedArray, open_source
from tellmost.running.extras import import_extra
from tellmost.shapes import Int

SIDE = 96  # pixels of a thumbnail
MOST_IMAGES = 300  # a page has so many of rows, and so many of targets; each takes 2 to 4 KB


@dataclass(frozen=True)
class PageItems:
    """An entry per row or target, each of which may be None; images are paths, or arrays."""

    texts: Any = None
    images: Any = None
    numbers: Int[np.ndarray, " n"] | None = None  # to show; None counts from 0
    unreadable: dict[int, str] = field(default_factory=dict)  # files of images, with the reason

    def check(self, count: int, names: tuple[str, str], of: str) -> None:
        """Check that there is one entry per row or target, or none at all."""
        for argument, entries in zip(names, (self.texts, self.images), strict=True):
            if entries is not None and len(entries) != count:
                raise ValueError(
                    f"{argument} must have one entry per {of}, {count}; got {len(entries)}. An "
                    f"entry may be None."
                )

    def texts_of(self, numbers: Int[np.ndarray, " b"], length: int) -> list[str] | None:
        """The texts of these rows or targets, cut to this length. A Series is read by place."""
        if self.texts is None:
            return None
        by_place = getattr(self.texts, "iloc", self.texts)
        shown = [by_place[number] for number in numbers.tolist()]
        texts = ["" if some is None else str(some) for some in shown]
        return [text if len(text) <= length else f"{text[:length]} …" for text in texts]

    def thumbnails(self, numbers: Int[np.ndarray, " b"]) -> list[str] | None:
        """The images of these rows or targets as data that stands in the page, the first few."""
        if self.images is None:
            return None
        by_place = getattr(self.images, "iloc", self.images)
        made: dict[int, str] = {}
        for number in numbers.tolist():
            if number not in made and len(made) < MOST_IMAGES:
                made[number] = self._draw(by_place[number], number)
        return [made.get(number, "") for number in numbers.tolist()]

    def _draw(self, image: Any, number: int) -> str:
        """A small copy. Nothing for a file that cannot be read, which is noted."""
        try:
            return draw_thumbnail(image, number)
        except ValueError as error:
            if not isinstance(image, str | Path):
                raise
            reason = getattr(error.__cause__, "strerror", None) or str(error.__cause__)
            self.unreadable[number] = f"{Path(image).name}: {reason.splitlines()[0]}"
            return ""


def items_of(rows: Any, argument: str) -> list[Any] | None:
    """What a page shows of rows whose columns were named: ids, and the texts behind vectors."""
    if not isinstance(rows, NamedArray):
        return None
    with closing(open_source(rows, argument)) as source:
        texts = source.texts if isinstance(source, HeldRows) else None
        ids = None if source.ids is None else source.ids(torch.arange(source.shape[0])).tolist()
    if texts is None or ids is None:
        return ids if texts is None else list(texts)
    return [f"{identifier}: {text}" for identifier, text in zip(ids, texts, strict=True)]


def note_unreadable(*shown: PageItems) -> str:
    """Say how many images the page lacks since their files could not be read."""
    reasons = [reason for items in shown for reason in items.unreadable.values()]
    if not reasons:
        return ""
    count = count_of(len(reasons), "image", "images")
    return f"{count} could not be read; the first is {reasons[0].rstrip('.')}."


def draw_thumbnail(image: Any, number: int) -> str:
    """An image as the text of a small JPEG. Nothing for None."""
    if image is None or (isinstance(image, str) and not image):
        return ""
    Image = import_extra("PIL.Image", "report", "images need Pillow")
    try:
        opened = Image.fromarray(image) if isinstance(image, np.ndarray) else Image.open(image)
        opened.thumbnail((SIDE, SIDE))
        file = BytesIO()
        opened.convert("RGB").save(file, "JPEG", quality=80)
    except (OSError, ValueError, TypeError, Image.DecompressionBombError) as error:
        what = Path(image).name if isinstance(image, str | Path) else type(image).__name__
        raise ValueError(
            f"images must be paths of images, or arrays of bytes; that of row {number}, {what}, "
            f"cannot be read: {str(error).splitlines()[0]}"
        ) from error
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
