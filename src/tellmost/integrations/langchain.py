"""LangChain: a retriever of documents, and a selector of examples for a prompt.

Both embed what is asked and hand it to a ``tm.Retriever`` over the embeddings of the documents, or
of the examples. So what comes back says most about the query together, not the same thing again.
"""

import numpy as np
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.example_selectors import BaseExampleSelector
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from tellmost.retrieval import Retriever


class DocumentRetriever(BaseRetriever):
    """The documents that together say most about a query; ``rows`` are their embeddings."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    rows: Retriever
    documents: list[Document]
    embeddings: Embeddings
    k: int = 4

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [
            self.documents[row] for row in picks_for(query, self.rows, self.embeddings, self.k)
        ]


class ExampleSelector(BaseExampleSelector):
    """The examples that together say most about the input of a prompt.

    What is asked is embedded as the values of ``input_keys``, joined. None takes all keys, sorted.
    """

    def __init__(
        self,
        rows: Retriever,
        examples: list[dict[str, str]],
        embeddings: Embeddings,
        *,
        k: int = 4,
        input_keys: list[str] | None = None,
    ) -> None:
        self.rows, self.examples, self.embeddings = rows, examples, embeddings
        self.k, self.input_keys = k, input_keys

    def add_example(self, example: dict[str, str]) -> None:
        """Append an example. What is subtracted from embeddings stays that of the first ones."""
        self.rows.add(np.array(self.embeddings.embed_documents([self._text_of(example)])))
        self.examples.append(example)

    def select_examples(self, input_variables: dict[str, str]) -> list[dict]:
        picks = picks_for(self._text_of(input_variables), self.rows, self.embeddings, self.k)
        return [self.examples[row] for row in picks]

    def _text_of(self, values: dict[str, str]) -> str:
        keys = sorted(values) if self.input_keys is None else self.input_keys
        return " ".join(values[key] for key in keys)


def picks_for(text: str, rows: Retriever, embeddings: Embeddings, k: int) -> list[int]:
    """The rows for a text, without what fills up a short answer."""
    _, indices = rows.search(np.array(embeddings.embed_query(text)), k)
    return [row for row in indices[0].tolist() if row >= 0]
