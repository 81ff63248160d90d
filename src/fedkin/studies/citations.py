"""Papers of the methods, as text and as BibTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fedkin import __version__
from fedkin.experiment.registry import target_of
from fedkin.report.numbers import join_words


@dataclass(frozen=True)
class Paper:
    """Paper of a method: surnames of its authors with commas between them, "et al." for those that are not listed.

    `venue` is a conference, or a journal where it `is_article`; `arxiv` the number of a preprint.
    """

    authors: str
    title: str
    year: int
    venue: str = ""
    arxiv: str = ""
    is_article: bool = False

    @property
    def names(self) -> list[str]:
        """Surnames of the authors that are listed."""
        return self.authors.removesuffix(" et al.").split(", ")

    @property
    def key(self) -> str:
        """Key of the BibTeX entry, such as ``dennis2021heterogeneity``."""
        word = next(word for word in re.findall(r"\w+", self.title) if len(word) > 3)
        return "".join(re.findall("[a-z0-9]", f"{self.names[0]}{self.year}{word}".lower()))

    @property
    def in_text(self) -> str:
        """Citation in a sentence, such as ``Dennis, Li and Smith, 2021``."""
        many = self.authors.endswith(" et al.") or len(self.names) > 3
        return f"{f'{self.names[0]} et al.' if many else join_words(self.names)}, {self.year}"

    @property
    def bibtex(self) -> str:
        """BibTeX entry."""
        authors = " and ".join([*self.names, *(["others"] if self.authors.endswith(" et al.") else [])])
        kind = "article" if self.is_article else "inproceedings" if self.venue else "misc"
        fields = {"author": authors, "title": f"{{{self.title}}}"}
        fields |= {"journal" if self.is_article else "booktitle": self.venue} if self.venue else {}
        fields |= {"eprint": self.arxiv, "archivePrefix": "arXiv"} if self.arxiv else {}
        return _entry(kind, self.key, {**fields, "year": str(self.year)})


def _entry(kind: str, key: str, fields: dict[str, str]) -> str:
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])


FEDKIN = _entry(
    "software", "fedkin", {
        "author": "{The authors of fedkin}", "title": "{fedkin: federated clustering and clustered federated learning}",
        "version": __version__,
    },
)  # fmt: skip
_CCFC = Paper("Liu, Yan, Zhang", "CCFC: Bridging Federated Clustering and Contrastive Learning", 2024)
PAPERS: dict[str, tuple[Paper, ...]] = {
    "afcl": (Paper(
        "Zhang, Zhang, Lu, Li, Chen, Cheung", "Asynchronous Federated Clustering with Unknown Number of Clusters", 2025,
        "AAAI",
    ),),
    "ccfc": (_CCFC,),
    "cfl-gp": (Paper(
        "Kim, Kim, de Veciana", "Clustered Federated Learning via Gradient-based Partitioning", 2024, "ICML"
    ),),
    "clove": (Paper(
        "Bhatia, Papadis, Kodialam, Lakshman, Chakrabarty",
        "CLoVE: Personalized Federated Learning through Clustering of Loss Vector Embeddings", 2025, arxiv="2506.22427",
    ),),
    "dec": (Paper("Xie, Girshick, Farhadi", "Unsupervised Deep Embedding for Clustering Analysis", 2016, "ICML"),),
    "embedding": (Paper(
        "Prigent et al.", "Efficient Resource-Constrained Federated Learning Clustering with Local Data Compression on "
        "the Edge-to-Cloud Continuum", 2024,
    ),),
    "fedavg": (
        Paper(
            "McMahan et al.", "Communication-Efficient Learning of Deep Networks from Decentralized Data", 2017,
            "AISTATS",
        ),
        Paper("Li et al.", "Federated Optimization in Heterogeneous Networks", 2020, "MLSys"),
    ),
    "fedcref": (Paper(
        "Nardi, Valerio, Passarella",
        "Federated Clustering: An Unsupervised Cluster-Wise Training for Decentralized Data Distributions", 2024,
    ),),
    "feddp-kmeans": (Paper(
        "Scott, Lampert, Saulpic", "Differentially Private Federated k-Means Clustering with Server-Side Data", 2025,
        "ICML",
    ),),
    "feddrift": (Paper(
        "Jothimurugesan, Hsieh, Wang, Joshi, Gibbons", "Federated Learning under Distributed Concept Drift", 2023,
        "AISTATS",
    ),),
    "fedgroup": (Paper(
        "Duan, Liu, Ji, Wu, Liang, Chen, Tan, Ren",
        "Flexible Clustered Federated Learning for Client-Level Data Distribution Shift", 2022, arxiv="2010.06870",
    ),),
    "fedopt": (Paper("Reddi et al.", "Adaptive Federated Optimization", 2021, "ICLR"),),
    "fedrc": (Paper(
        "Guo, Tang, Lin", "FedRC: Tackling Diverse Distribution Shifts Challenge in Federated Learning by Robust "
        "Clustering", 2024, "ICML",
    ),),
    "fesem": (Paper(
        "Long, Xie, Shen, Zhou, Wang, Jiang",
        "Multi-center federated learning: clients clustering for better personalization", 2023, "World Wide Web",
        "2005.01026", is_article=True,
    ),),
    "ffcm": (Paper(
        "Stallmann, Wilbik", "Towards Federated Clustering: A Federated Fuzzy c-Means Algorithm (FFCM)", 2022
    ),),
    "flux": (Paper(
        "Fenoglio, Li, Barbiero, Lane, Langheinrich, Gjoreski",
        "FLUX: Efficient Descriptor-Driven Clustered Federated Learning under Arbitrary Distribution Shifts", 2025,
        "NeurIPS",
    ),),
    "fuzzy-cmeans": (Paper("Bezdek", "Pattern Recognition with Fuzzy Objective Function Algorithms", 1981),),
    "gradient-loss": (Paper(
        "Lin, Chen, Yang, Wu, Liu", "A Joint Gradient and Loss Based Clustered Federated Learning Design", 2023
    ),),
    "hierarchical": (Paper(
        "Briggs, Fan, Andras", "Federated learning with hierarchical clustering of local updates to improve training "
        "on non-IID data", 2020, "IJCNN",
    ),),
    "ifca": (Paper(
        "Ghosh, Chung, Yin, Ramchandran", "An Efficient Framework for Clustered Federated Learning", 2020, "NeurIPS"
    ),),
    "kfed": (Paper(
        "Dennis, Li, Smith", "Heterogeneity for the Win: One-Shot Federated Clustering", 2021, "ICML"
    ),),
    "kmeans": (Paper("Arthur, Vassilvitskii", "k-means++: The Advantages of Careful Seeding", 2007, "SODA"),),
    "ladd": (Paper(
        "Shenaj et al.", "Learning Across Domains and Devices: Style-Driven Source-Free Domain Adaptation in Clustered "
        "Federated Learning", 2023, "WACV",
    ),),
    "mufc": (Paper(
        "Pan, Sima, Prakash, Rana, Milenkovic", "Machine Unlearning of Federated Clusters", 2023, "ICLR"
    ),),
    "ocfl": (Paper("Zuziak, Pellungrini, Rinzivillo", "One-Shot Clustering for Federated Learning", 2024),),
    "pacfl": (Paper(
        "Vahidian et al.", "Efficient Distribution Similarity Identification in Clustered Federated Learning via "
        "Principal Angles Between Client Data Subspaces", 2023, "AAAI",
    ),),
    "ppfc-gan": (Paper(
        "Yan, Liu, Qi, Zhang", "Privacy-Preserving Federated Deep Clustering based on GAN", 2022
    ),),
    "sattler": (Paper(
        "Sattler, Müller, Samek", "Clustered Federated Learning: Model-Agnostic Distributed Multi-Task Optimization "
        "under Privacy Constraints", 2020,
    ),),
    "scfc": (_CCFC,),
    "sda-fc": (Paper(
        "Yan, Liu, Ning, Zhang", "SDA-FC: Bridging federated clustering and deep generative model", 2024
    ),),
    "uifca": (Paper(
        "Chung, Lee, Ramchandran", "Federated Unsupervised Clustering with Generative Models", 2022
    ),),
}  # fmt: skip
"""Papers by method, as the table at the top of the method's page has them; kin-graph and local have none."""


def cite(methods: Sequence[str] = ()) -> str:
    """Return BibTeX entries of fedkin, after those of methods' papers.

    Raises FedkinError if a method does not exist.
    """
    for method in methods:
        target_of("method", method)
    papers = [paper for method in methods for paper in PAPERS.get(method, ())]
    return "\n\n".join([*dict.fromkeys(paper.bibtex for paper in papers), FEDKIN])
