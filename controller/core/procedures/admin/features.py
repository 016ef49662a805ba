"""The finalized features in /feature: UpdateFeatures requests, and their set-up at failover (KB
11.9).

A broker in ZooKeeper mode supports no feature (BrokerFeatures.createEmpty): levels that exist can
be deleted, none can be set.
"""

from controller.core import error_codes, znodes
from controller.core.api_requests.features import (
    FeatureUpdate,
    UpdateFeaturesReceived,
    UpdateFeaturesResponse,
)
from controller.core.api_requests.topics import TopicResult
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.deviations import EVERY_WRITE_GUARDED, VALIDATE_ONLY_CHANGES_NOTHING
from controller.core.errors import ControllerMovedError, RequestRefused, ZnodeError
from controller.core.operations import OK, Create, SetData, WriteOperation
from controller.core.procedures.admin.waiting_requests import send_response
from controller.core.values import ANY_VERSION
from controller.core.zookeeper_io import read_znodes, write

_RULE = UpdateFeaturesReceived.RULE
_SET_UP = "failover: feature versioning"
_DISABLED = "Feature versioning system is disabled."
_NO_MESSAGE = "NONE"
"""Kafka's message for an update that was done."""
_FAILED = "Unable to update finalized features due to an unexpected server error."
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


async def process_update_features(controller: Controller, request: UpdateFeaturesReceived) -> None:
    """Validate each update, write the result once, answer for each feature.

    KafkaApis.handleUpdateFeatures, KafkaController.processFeatureUpdatesWithActiveController.
    """
    if not controller.protocol.has_feature_versioning:
        error = error_codes.INVALID_REQUEST
        send_response(controller, UpdateFeaturesResponse(request.request, error, _DISABLED), _RULE)
        return
    found = await read_znodes(controller, [znodes.FEATURE], _RULE)
    present = _present(controller, found.errors[0], found.data[0])
    wanted = dict(present.levels)
    answers: dict[str, TopicResult] = {}
    for update in request.updates:
        # If a feature is named twice, the first update counts.
        if update.feature not in answers:
            answers[update.feature] = _update_result(update, present.levels)
            if not answers[update.feature].error:
                del wanted[update.feature]
    is_dry = request.validate_only and VALIDATE_ONLY_CHANGES_NOTHING.applies(
        controller.configuration
    )
    if wanted != present.levels and is_dry:
        controller.observer.deviates(VALIDATE_ONLY_CHANGES_NOTHING, znodes.FEATURE)
    elif wanted != present.levels:
        content = znodes.write_features(znodes.Features(True, wanted, present.version))
        change = SetData(znodes.FEATURE, content, found.versions[0])
        [error] = (await write(controller, [change], Reason(_RULE))).errors
        if error != OK:
            text = f"the features cannot be written (ZooKeeper code {error}): ask again"
            controller.notice("error", "features_not_written", znodes.FEATURE, text)
            answers = {name: _as_failed_result(answer) for name, answer in answers.items()}
    answered = tuple(answers.values())
    answer = UpdateFeaturesResponse(request.request, error_codes.NONE, None, answered)
    send_response(controller, answer, _RULE)


def _present(controller: Controller, error: int, data: bytes | None) -> znodes.Features:
    """The content of /feature; disabled or unusable content counts as no features."""
    if error == OK:
        try:
            present = znodes.read_features(data)
            if present.enabled:
                return present
        except ZnodeError as unreadable:
            text = f"{unreadable}; treated as having no features"
            controller.notice("error", "unreadable_znode", znodes.FEATURE, text)
    return znodes.Features(True)


def _update_result(update: FeatureUpdate, levels: dict[str, int]) -> TopicResult:
    try:
        _judge(update, levels.get(update.feature))
    except RequestRefused as refused:
        return TopicResult(update.feature, refused.error, refused.message)
    return TopicResult(update.feature, error_codes.NONE, _NO_MESSAGE)


def _judge(update: FeatureUpdate, existing: int | None) -> None:
    """validateFeatureUpdate: only an existing feature can be deleted. Raises RequestRefused for
    everything else."""
    level = update.level
    is_delete = level < 1 and update.upgrade_type != _UPGRADE
    if not update.feature:
        text = "Feature name can not be empty."
    elif update.upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        text = "Received unknown upgrade type."
    elif is_delete and existing is not None:
        return
    elif is_delete:
        text = "Can not delete non-existing finalized feature."
    elif level < 1:
        text = (
            f"Can not provide versionLevel: {level} less than 1 without setting the SAFE "
            "downgradeType in the request."
        )
    else:
        text = _problem_with_level(update, existing) or (
            "Could not apply finalized feature update because the provided feature is not "
            "supported."
        )
    raise RequestRefused(error_codes.INVALID_REQUEST, text)


def _problem_with_level(update: FeatureUpdate, existing: int | None) -> str:
    """Why an existing feature cannot get another level; empty if it can."""
    level = update.level
    if existing is None:
        return ""
    if level == existing:
        way = "downgrade" if update.upgrade_type == _SAFE_DOWNGRADE else "upgrade"
        return (
            f"Can not {way} a finalized feature from existing versionLevel:{existing} to the "
            "same value."
        )
    if level < existing and update.upgrade_type != _SAFE_DOWNGRADE:
        return (
            f"Can not downgrade finalized feature from existing versionLevel:{existing} to "
            f"provided versionLevel:{level} without setting the downgradeType to SAFE in the "
            "request."
        )
    if level > existing and update.upgrade_type != _UPGRADE:
        return (
            "When the downgradeType is set to SAFE in the request, the provided "
            f"versionLevel:{level} can not be greater than existing versionLevel:{existing}."
        )
    return ""


def _as_failed_result(answer: TopicResult) -> TopicResult:
    if answer.error:
        return answer
    return TopicResult(answer.name, error_codes.FEATURE_UPDATE_FAILED, _FAILED)


# At failover (maybeSetupFeatureVersioning, KB 11.9.1) -------------------------------------------


async def set_up_features(controller: Controller) -> None:
    """Enable /feature from IBP 2.7-IV0 on, disable and empty it below. Written only if it differs.

    Kafka writes without a guard; here the controller epoch guards the write, like every other
    write.
    """
    found = await read_znodes(controller, [znodes.FEATURE], _SET_UP)
    if found.errors[0] != OK:
        content = znodes.write_features(_features_to_write(controller, None))
        await _set_up(controller, Create(znodes.FEATURE, content))
        return
    try:
        present = znodes.read_features(found.data[0])
    except ZnodeError as error:
        controller.notice(
            "error", "unreadable_znode", znodes.FEATURE, f"{error}; it is not changed"
        )
        return
    wanted = _features_to_write(controller, present)
    if wanted != present:
        change = SetData(znodes.FEATURE, znodes.write_features(wanted), ANY_VERSION)
        await _set_up(controller, change)


async def _set_up(controller: Controller, change: WriteOperation) -> None:
    """Write the features, unless another controller has the role (EVERY_WRITE_GUARDED). Raises
    ControllerMovedError."""
    try:
        await write(controller, [change], Reason(_SET_UP))
    except ControllerMovedError:
        controller.observer.deviates(EVERY_WRITE_GUARDED, znodes.FEATURE)
        raise


def _features_to_write(controller: Controller, present: znodes.Features | None) -> znodes.Features:
    version = 2 if controller.protocol.at_least("3.3-IV0") else 1
    if not controller.protocol.has_feature_versioning:
        return znodes.Features(False, {}, version)
    levels = present.levels if present is not None and present.enabled else {}
    return znodes.Features(True, levels, version)
