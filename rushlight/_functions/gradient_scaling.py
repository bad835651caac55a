"""The steps of a gradient scaler, by PyTorch's private names."""

from rushlight import _C

__all__ = ["_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"]


def _amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale):
    """Multiplies gradients by inv_scale in place, and notes in found_inf (1 or 0) whether one of
    them was not finite."""
    name = "_amp_foreach_non_finite_check_and_unscale_"
    for word, number in (("found_inf", found_inf), ("inv_scale", inv_scale)):
        if number.numel() != 1:
            raise RuntimeError(f"{name}: {word} must have one element, got shape "
                               f"{tuple(number.shape)}")  # fmt: skip
    groups = {}
    for g in self:
        groups.setdefault(g.device, []).append(g)
    for grads in groups.values():
        _C._list_unscale_(grads, found_inf, inv_scale.reshape(()))


def _amp_update_scale_(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor,
                       growth_interval):  # fmt: skip
    """The step of a gradient scaler: down after a step that was not finite, up after
    growth_interval good ones."""
    if self.device.type != "cpu":
        return _update_without_waiting(self, growth_tracker, found_inf.reshape(()) != 0,
                                       scale_growth_factor, scale_backoff_factor, growth_interval
                                       )  # fmt: skip
    if found_inf.item():
        self.mul_(scale_backoff_factor)
        growth_tracker.fill_(0)
        return self
    successful = growth_tracker.item() + 1
    if successful == growth_interval:
        grown = self * scale_growth_factor
        if grown.isfinite().all():
            self.copy_(grown)
        growth_tracker.fill_(0)
    else:
        growth_tracker.fill_(successful)
    return self


def _update_without_waiting(scale, tracker, failed, growth, backoff, interval):
    """The same where nobody looks at the numbers: they stay on the device."""
    successful = tracker + 1
    due = successful == interval
    grown = scale * growth
    good = _C.where(due & grown.isfinite(), grown, scale)
    scale.copy_(_C.where(failed, scale * backoff, good))
    tracker.copy_(_C.where(failed | due, 0, successful))
    return scale
