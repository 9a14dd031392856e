from pathlib import Path

import pytest

from traincrew.cli.errors import BadInput
from traincrew.cli.manifest.documents import Document
from traincrew.cli.run.preflight import check_images
from traincrew.local.images import ImageStore, Source


def job(master: object, worker: object) -> Document:
    def template(image: object) -> dict[str, object]:
        return {"spec": {"containers": [{"name": "chainer", "image": image}]}}

    spec = {
        "master": {"template": template(master)},
        "workerSets": {"ws0": {"template": template(worker)}},
    }
    content = {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "ChainerJob",
        "metadata": {"name": "digits"},
        "spec": spec,
    }
    return Document("job.yaml:1", content)


def environments_only(cache: Path) -> ImageStore:
    return ImageStore(cache, source=Source.ENVIRONMENT)


def test_images_of_the_shipped_catalog_pass(tmp_path: Path) -> None:
    check_images(
        [job("traincrew/chainermn:0.1.0", "everpeace/chainermn:1.3.0")], ImageStore(tmp_path)
    )


def test_an_unknown_image_is_named_with_its_field(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        check_images([job("everpeace/chainer:4.1.0", "me/own:1")], environments_only(tmp_path))

    text = str(refused.value)
    assert "job.yaml:1: ChainerJob 'digits'" in text
    assert "spec.workerSets.ws0.template.spec.containers[0].image" in text
    assert "no environment is defined for it" in text
    assert "spec.master" not in text


def test_the_same_image_is_explained_once(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        check_images([job("me/own:1", "me/own:1")], environments_only(tmp_path))

    assert str(refused.value).count("no environment is defined") == 1
    assert "spec.workerSets.ws0" in str(refused.value)


def test_an_image_of_a_registry_passes(tmp_path: Path) -> None:
    check_images([job("me/own:1", "me/own:1")], ImageStore(tmp_path))


@pytest.mark.parametrize("holder", ["pod", "template"])
def test_an_annotation_allows_environments_only(tmp_path: Path, holder: str) -> None:
    metadata = {"annotations": {"traincrew.dev/image-source": "environment"}}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "me/own:1"}]}}
    content = pod if holder == "pod" else {"spec": {"template": pod}}
    with pytest.raises(BadInput, match="no environment is defined for it"):
        check_images([Document("job.yaml:1", {**content, "kind": "Pod"})], ImageStore(tmp_path))


def test_values_of_a_wrong_type_are_left_to_the_schema(tmp_path: Path) -> None:
    check_images([job(7, None)], ImageStore(tmp_path))
