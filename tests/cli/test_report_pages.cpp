// Report pages in a real browser: no complaint of the console, pictures that are there, clicks and zoom that work.
// The whole file is absent where there is no browser.
#include "cli_support.h"

#ifdef KB_HAVE_BROWSER

namespace {

using namespace kb::test;

void must_run(const TempDir& dir, const std::vector<std::string>& args) {
  const Ended e = kernbench(dir, args);
  BOOST_REQUIRE_MESSAGE(e.code == 0, e.err);
}

/// Uses a page as a person would.
void check_page(const TempDir& dir, const std::string& page, const std::string& sections) {
  const Ended e = Process(dir, {"/usr/bin/env", "node", std::string(KB_SOURCE_DIR) + "/tests/report/check_report.mjs",
                                page, sections})
                      .wait();
  BOOST_TEST(e.code == 0, e.err);
}

BOOST_AUTO_TEST_SUITE(report_pages)

BOOST_AUTO_TEST_CASE(page_of_a_run_works_in_a_browser) {
  const TempDir dir;
  must_run(dir, {"run", "--topology", topology("one_cube.yaml"), "--bench", "gemm", "--out", "out", "--set",
                 "bench.M=64", "--set", "bench.K=512", "--set", "bench.N=72", "--set", "bench.pes=4"});
  must_run(dir, {"report", "out"});
  check_page(dir, "out/report.html", "overview,bounds,path,stalls,timeline,roofline,map,counters");
}

BOOST_AUTO_TEST_CASE(page_of_a_sweep_works_in_a_browser) {
  const TempDir dir;
  write_text(dir / "s.yaml", "topology: " + topology("one_pe.yaml") +
                                 "\nbench: gemm\ngrid:\n  bench.K: [64, 128, 256, 512]\n  pe.dma.outstanding: [1, "
                                 "4]\nset: {bench.M: 64, bench.N: 64}\n");
  must_run(dir, {"sweep", "s.yaml", "--out", "o"});
  must_run(dir, {"report", "o"});
  check_page(dir, "o/report.html", "overview,curves,points");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace

#endif
