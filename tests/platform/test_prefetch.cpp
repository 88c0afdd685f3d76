// prefetch_across_prologue on attention: what V costs when it is read ahead of the softmax merge.
#include "session.h"

using namespace kb;
using namespace kb::test;

BOOST_AUTO_TEST_SUITE(prefetch)

// Never later, somewhere earlier, and the same output bytes. Without composites nothing changes.
BOOST_AUTO_TEST_CASE(reading_v_ahead_never_costs_time_in_decode_and_changes_no_value) {
  for (const char* variant : {"primitive", "hybrid", "opt2", "composite", "composite_extended"})
    for (const char* outstanding : {"1", "4"}) {
      double gained = 0;
      for (const char* s_kv : {"65", "500", "1024"}) {
        TempDir dir;
        double latency[2];
        std::string output[2];
        for (int on = 0; on < 2; ++on) {
          RunSpec s = spec("one_pe", "gqa-decode-long", {{"S_kv", s_kv}, {"variant", variant}}, Mode::data);
          s.overrides = {{"pe.scheduler.prefetch_across_prologue", on == 1 ? "true" : "false"},
                         {"pe.dma.outstanding", outstanding}};
          s.out = dir / std::to_string(on);
          s.log = false;
          s.dump = true;
          const RunOutcome r = run(s);
          latency[on] = r.result.latency_ns;
          output[on] = read_text(s.out + "/tensors/o.npy");
        }
        BOOST_TEST(latency[1] <= latency[0], variant << ", S_kv " << s_kv << ", outstanding " << outstanding);
        BOOST_TEST(output[0].size() > 2048u);
        BOOST_TEST((output[0] == output[1]));
        gained += latency[0] - latency[1];
      }
      // P is a prologue's result or that of commands before: V's reads go ahead in both cases. Loads always did.
      const bool composites = std::string(variant) != "primitive";
      BOOST_TEST((gained > 0) == composites, variant << ", outstanding " << outstanding << ": " << gained << " ns");
    }
}

BOOST_AUTO_TEST_SUITE_END()
