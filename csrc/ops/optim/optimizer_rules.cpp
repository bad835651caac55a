#include "ops/optim/optimizer_rules.h"

#include "core/error.h"
#include "functors/optimizer_numbers.h"

namespace rush {

namespace {

using namespace optimizers;

// Which kernel runs may depend on the group's options, in the order of the rule's numbers.
OptimizerRule sgd_kernel(const double* o) {
  return o[1] != 0 ? OptimizerRule::SgdMomentum : OptimizerRule::Sgd;
}
OptimizerRule adam_kernel(const double* o) {
  return o[5] != 0 ? OptimizerRule::AdamMax : OptimizerRule::Adam;
}
OptimizerRule rmsprop_kernel(const double* o) {
  if (o[5] != 0)
    return o[4] > 0 ? OptimizerRule::RmsPropCenteredMomentum : OptimizerRule::RmsPropCentered;
  return o[4] > 0 ? OptimizerRule::RmsPropMomentum : OptimizerRule::RmsProp;
}
template <OptimizerRule rule>
OptimizerRule always(const double*) {
  return rule;
}

template <class Numbers>
constexpr OptimizerRuleInfo rule(const char* name, const char* writer, OptimizerNumbers numbers,
                                 OptimizerRule (*kernel)(const double*)) {
  return {name, writer, Numbers::kOptions, Numbers::kScalars, numbers, kernel, Numbers::prepare};
}

using enum OptimizerRule;
constexpr OptimizerRuleInfo kRules[] = {
    rule<SgdNumbers>("sgd", "SGD.step", OptimizerNumbers::Sgd, sgd_kernel),
    rule<AdamNumbers>("adam", "Adam.step", OptimizerNumbers::Adam, adam_kernel),
    rule<NAdamNumbers>("nadam", "NAdam.step", OptimizerNumbers::NAdam, always<NAdam>),
    rule<RAdamNumbers>("radam", "RAdam.step", OptimizerNumbers::RAdam, always<RAdam>),
    rule<AdamaxNumbers>("adamax", "Adamax.step", OptimizerNumbers::Adamax, always<Adamax>),
    rule<AdagradNumbers>("adagrad", "Adagrad.step", OptimizerNumbers::Adagrad, always<Adagrad>),
    rule<AdadeltaNumbers>("adadelta", "Adadelta.step", OptimizerNumbers::Adadelta,
                          always<Adadelta>),
    rule<RmsPropNumbers>("rmsprop", "RMSprop.step", OptimizerNumbers::RmsProp, rmsprop_kernel),
    rule<RpropNumbers>("rprop", "Rprop.step", OptimizerNumbers::Rprop, always<Rprop>),
    rule<AsgdNumbers>("asgd", "ASGD.step", OptimizerNumbers::Asgd, always<Asgd>),
};

}  // namespace

const OptimizerRuleInfo& optimizer_rule(std::string_view name) {
  for (const OptimizerRuleInfo& rule : kRules) {
    if (name == rule.name) return rule;
  }
  fail(ErrorKind::Argument, "optimizer_step", "there is no rule of the name '", name, "'");
}

}  // namespace rush
