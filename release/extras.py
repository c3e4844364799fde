"""What each extra promises, tried where it is installed alone: ``release/matrix.py --extras``.

A use is a script of Python. It imports what the extra is for and calls what needs it.
"""

COMMON = """
import numpy as np, tellmost as tm
rng = np.random.default_rng(0)
pool, targets = rng.standard_normal((200, 8)), rng.standard_normal((3, 8))
chosen = tm.select(pool, targets, k=5)
"""

SHELL = """
from tellmost.cli import app, ending
"""

MODEL = """
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

words = models.WordLevel({"[UNK]": 0, "red": 1, "green": 2, "blue": 3}, unk_token="[UNK]")
tokenizer = Tokenizer(words)
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
weights = np.eye(4, dtype=np.float32)
static = StaticEmbedding(tokenizer, embedding_weights=weights)
SentenceTransformer(modules=[static]).save("model")
"""

STUDY = """
import optuna
from tellmost.integrations.optuna import SafeSampler

space = {"x": optuna.distributions.FloatDistribution(0.0, 1.0)}
gp = tm.GP(tm.kernels.Gaussian(0.3), noise_std=0.1)
limits = {"height": tm.Constraint(gp, at_least=-1.0)}
sampler = SafeSampler(space, objective=gp, constraints=limits, safe_seed=[{"x": 0.5}])

def run(trial):
    trial.set_user_attr("height", 0.1)
    return trial.suggest_float("x", 0.0, 1.0)

study = optuna.create_study(
    storage="sqlite:///study.db", direction="maximize", sampler=sampler, study_name="s"
)
study.optimize(run, n_trials=2)
assert len(study.trials) == 2
"""

CHAIN = """
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from tellmost.integrations.langchain import DocumentRetriever

embeddings, texts = DeterministicFakeEmbedding(size=8), [f"text {n}" for n in range(30)]
rows = tm.Retriever(np.array(embeddings.embed_documents(texts)))
documents = [Document(page_content=text) for text in texts]
found = DocumentRetriever(rows=rows, documents=documents, embeddings=embeddings, k=3)
assert len(found.invoke("text 3")) == 3
"""

USES = {
    "cli": SHELL
    + "np.save('pool.npy', pool); np.save('targets.npy', targets)\n"
    + "given = ['select', 'pool.npy', '--targets', 'targets.npy', '-k', '5', '-o', 'picks.csv']\n"
    + "assert ending.run(app.app, given) == 0 and len(open('picks.csv').readlines()) == 6",
    "report": "images = [np.zeros((4, 4, 3), np.uint8)] * 200\n"
    + "chosen.report('page.html', pool, targets, images=images)\n"
    + "assert 'data:image/jpeg' in open('page.html', encoding='utf-8').read()",
    "embed": MODEL + "assert tm.embed(['red', 'green blue'], 'model').shape == (2, 4)",
    "plot": "chosen.plot().savefig('picks.png')",
    "frame": "assert chosen.to_frame()['index'].tolist() == chosen.indices.tolist()",
    "parquet": "import pyarrow, pyarrow.parquet\n"
    + "table = pyarrow.table({'emb': pool.tolist(), 'id': range(200)})\n"
    + "pyarrow.parquet.write_table(table, 'pool.parquet')\n"
    + "again = tm.select('pool.parquet', targets, k=5, id_column='id')\n"
    + "assert again.ids.tolist() == chosen.indices.tolist()",
    "ray": "np.save('pool.npy', pool)\n"
    + "again = tm.select('pool.npy', targets, k=5, cluster=tm.cluster.Ray(workers=1))\n"
    + "assert again.indices.tolist() == chosen.indices.tolist()",
    "remote": "import aiohttp, fsspec, gcsfs, huggingface_hub, s3fs\n"
    + "with fsspec.open('memory://rows/pool.npy', 'wb') as file:\n    np.save(file, pool)\n"
    + "again = tm.select('memory://rows/pool.npy', targets, k=5)\n"
    + "assert again.indices.tolist() == chosen.indices.tolist()",
    "bo": "import botorch, gpytorch\n"
    + "assert tm.GP.fit(pool, pool[:, 0], kernel=tm.kernels.Gaussian(1.0)).noise_std > 0",
    "optuna": STUDY + "import psycopg",
    "langchain": CHAIN,
    "sklearn": "from tellmost.integrations.sklearn import TargetedSubset\n"
    + "assert len(TargetedSubset(5).fit(pool, targets=targets).indices_) == 5",
    "demo": SHELL + "assert ending.run(app.app, ['demo', '--out', 'demo']) == 0",
}
USES = {name: COMMON + use for name, use in USES.items()}
