"""Texts to vectors, by a model of the caller's choice, kept beside the file they came from."""

from tellmost.embeddings.embedding import Progress, embed_texts, is_whole_text

__all__ = ["Progress", "embed_texts", "is_whole_text"]
