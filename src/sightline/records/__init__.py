"""Files of points with their records and ids: read, matched, and written as picks."""

from sightline.records.array_files import read_array_files
from sightline.records.features import match_features
from sightline.records.labels import read_labels
from sightline.records.matching import match_ids, read_observed
from sightline.records.nearest import nearest_targets
from sightline.records.picks import check_picks_path, pick_rows, write_picks
from sightline.records.reading import column_names, read_records
from sightline.records.records import Records

__all__ = [
    "Records",
    "check_picks_path",
    "column_names",
    "match_features",
    "match_ids",
    "nearest_targets",
    "pick_rows",
    "read_array_files",
    "read_labels",
    "read_observed",
    "read_records",
    "write_picks",
]
