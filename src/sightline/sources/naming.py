"""Which of several arrays in a file is meant."""

from sightline.sources.files import File


def the_only_one(found: list[str], what: str, file: File) -> str:
    if len(found) == 1:
        return found[0]
    listing = ", ".join(sorted(found)) or "none"
    raise ValueError(
        f"{file.label} must hold exactly one {what}; it has {len(found)}: {listing}. Load the "
        f"file yourself and pass the array you want."
    )
