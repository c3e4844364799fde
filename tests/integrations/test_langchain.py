"""LangChain gets the picks of the Retriever, through its own interfaces."""

import numpy as np
import pytest

import tellmost as tm

pytest.importorskip("langchain_core")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.prompts import FewShotPromptTemplate, PromptTemplate

from tellmost.integrations.langchain import DocumentRetriever, ExampleSelector

TEXTS = [f"text {number}" for number in range(60)]
EMBEDDINGS = DeterministicFakeEmbedding(size=12)


def rows_of(texts: list[str]) -> tm.Retriever:
    return tm.Retriever(np.array(EMBEDDINGS.embed_documents(texts)))


def test_documents_come_in_the_order_of_the_picks():
    rows = rows_of(TEXTS)
    documents = [Document(page_content=text, metadata={"row": i}) for i, text in enumerate(TEXTS)]
    retriever = DocumentRetriever(rows=rows, documents=documents, embeddings=EMBEDDINGS, k=5)
    _, expected = rows.search(np.array(EMBEDDINGS.embed_query("what?")), 5)
    found = retriever.invoke("what?")
    assert [document.metadata["row"] for document in found] == expected[0].tolist()
    chain = retriever | (lambda some: [document.page_content for document in some])
    assert chain.batch(["what?", "why?"])[0] == [TEXTS[row] for row in expected[0]]


def test_examples_are_chosen_for_the_input_of_a_prompt():
    examples = [{"question": text, "answer": text.upper()} for text in TEXTS]
    rows = rows_of(TEXTS)
    selector = ExampleSelector(rows, examples, EMBEDDINGS, k=3, input_keys=["question"])
    _, expected = rows.search(np.array(EMBEDDINGS.embed_query("what?")), 3)
    chosen = selector.select_examples({"question": "what?"})
    assert chosen == [examples[row] for row in expected[0]]
    prompt = FewShotPromptTemplate(
        example_selector=selector,
        example_prompt=PromptTemplate.from_template("Q: {question} A: {answer}"),
        suffix="Q: {question} A:",
        input_variables=["question"],
    )
    written = prompt.format(question="what?")
    assert all(f"A: {TEXTS[row].upper()}" in written for row in expected[0])
    selector.add_example({"question": "what?", "answer": "that"})
    assert selector.select_examples({"question": "what?"})[0]["answer"] == "that"
