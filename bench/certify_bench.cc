// Certificates on real rows: N documents of each kind (needle, records, text), each in every mode and in sound with
// raise_after = 0, every step, layer and head checked against float64 attention over all rows. Prints one line a mode
// and kind; exits with 1 if any is broken.
//   certify_bench MODEL_DIR SOURCE_DIR [N = 7] [N_TOKENS = 3000] [N_STEPS = 16]

#include <cstdio>
#include <cstdlib>

#include "tests/engine/certify_run.h"

namespace vestige::testing {
namespace {

int run(int argc, char** argv) {
  const std::string model_dir = argv[1], source_dir = argv[2];
  const auto number = [&](int i, int64_t otherwise) { return argc > i ? std::atoll(argv[i]) : otherwise; };
  const int64_t n = number(3, 7);
  auto model = Model::load(model_dir, {});
  auto tokenizer = Tokenizer::load(model_dir);
  auto stream = Stream::create({.n_threads = 2, .pin_threads = false});
  if (!model.ok() || !tokenizer.ok() || !stream.ok()) {
    std::fprintf(stderr, "certify_bench: cannot load %s\n", model_dir.c_str());
    return 2;
  }
  std::printf("%-10s %-8s %6s %9s %6s %10s %9s %9s %9s %9s %s\n", "mode", "kind", "steps", "cases", "left%", "promise",
              "omitted", "certified", "error", "certified", "broken");
  int64_t n_broken = 0, n_cases = 0;
  struct Mode {
    const char* name;
    std::map<std::string, double> settings;
  };
  const Mode modes[] = {{"calibrated", {{"mode", 0}}},
                        {"sound", {{"mode", 1}}},
                        {"raised", {{"mode", 1}, {"raise_after", 0}}},
                        {"through", {{"mode", 2}}}};
  for (const Mode& mode : modes) {
    for (const char* kind : {"needle", "records", "text"}) {
      Checks all;
      for (int64_t i = 0; i < n; ++i) {
        const CertifyRun one = {.kind = kind,
                                .seed = static_cast<uint64_t>(i) + 100,
                                .n_document = number(4, 3000),
                                .n_steps = number(5, 16),
                                .settings = mode.settings};
        const auto checks = certify_run(**model, **tokenizer, source_dir, one, **stream);
        if (!checks.ok()) {
          std::fprintf(stderr, "certify_bench: %s\n", checks.status().message().c_str());
          return 2;
        }
        all.add(*checks);
      }
      n_broken += all.n_broken();
      n_cases += all.n_cases;
      std::printf("%-10s %-8s %6lld %9lld %6.1f %10.3g %9.2g %9.2g %9.2g %9.2g %lld %s\n", mode.name, kind,
                  static_cast<long long>(all.n_steps), static_cast<long long>(all.n_cases),
                  100 * double(all.n_left_out) / double(all.n_cases), all.promise, all.omitted_true, all.omitted_bound,
                  all.error_true, all.error_bound, static_cast<long long>(all.n_broken()), all.first_broken.c_str());
      std::fflush(stdout);
    }
  }
  std::printf("%lld cases, %lld certificates broken\n", static_cast<long long>(n_cases),
              static_cast<long long>(n_broken));
  return n_broken == 0 ? 0 : 1;
}

}  // namespace
}  // namespace vestige::testing

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: certify_bench MODEL_DIR SOURCE_DIR [N] [N_TOKENS] [N_STEPS]\n");
    return 2;
  }
  return vestige::testing::run(argc, argv);
}
