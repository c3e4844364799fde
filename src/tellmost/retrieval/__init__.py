"""For every query its own few rows: Retriever."""

from tellmost.retrieval.retriever import Retriever as Retriever
