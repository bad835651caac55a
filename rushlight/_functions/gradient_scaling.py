"""The steps of a gradient scaler, by PyTorch's private names."""

__all__ = ["_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"]


def _amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale):
    """Multiplies gradients by inv_scale in place, and notes in found_inf (1 or 0) whether one of
    them was not finite."""
    scale = inv_scale.reshape(())
    for g in self:
        if not g.isfinite().all():
            found_inf.fill_(1.0)
        g.mul_(scale.to(g.device, g.dtype))


def _amp_update_scale_(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor,
                       growth_interval):  # fmt: skip
    """The step of a gradient scaler: down after a step that was not finite, up after
    growth_interval good ones."""
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
