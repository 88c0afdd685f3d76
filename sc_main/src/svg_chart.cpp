#include "svg_chart.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace kb::cli {

namespace {

constexpr double kWidth = 860, kPanelHeight = 340;
constexpr double kLeft = 90, kRight = 200, kTop = 40, kBottom = 56;  // margins of a panel
constexpr double kTitleHeight = 36;

/// Colours that people with the usual kinds of colour blindness tell apart (Okabe and Ito); the marks differ too.
constexpr std::array<const char*, 8> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#56b4e9", "#e69f00", "#000000", "#999933"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

/// 1048576 as "1 Mi" where it is a whole power-of-two multiple, 30000 as "30 k".
std::string tick_text(double v) {
  const double a = std::fabs(v);
  for (const auto& [unit, name] : {std::pair(1073741824.0, " Gi"), {1048576.0, " Mi"}, {1024.0, " Ki"}})
    if (a >= unit && std::fmod(a, unit) == 0) return fmt::format("{:g}{}", v / unit, name);
  for (const auto& [unit, name] : {std::pair(1e9, " G"), {1e6, " M"}, {1e3, " k"}})
    if (a >= unit) return fmt::format("{:g}{}", v / unit, name);
  return fmt::format("{:g}", v);
}

/// Maps values to places on paper.
class Axis {
 public:
  Axis(double low, double high, double from, double to, bool base_two) : from_(from), to_(to) {
    log_ = low > 0 && high >= 16 * low;
    if (log_) {
      base_ = base_two ? 2 : 10;
      low_ = std::floor(std::log(low) / std::log(base_) + 1e-9);
      high_ = std::ceil(std::log(high) / std::log(base_) - 1e-9);
      for (double e = low_; e <= high_; ++e) ticks_.push_back(std::pow(base_, e));
    } else {
      low = std::min(low, 0.0);
      const double raw = std::max(high - low, 1e-12) / 5, decade = std::pow(10, std::floor(std::log10(raw)));
      const double ratio = raw / decade, step = decade * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
      low_ = std::floor(low / step) * step;
      high_ = std::max(std::ceil(high / step) * step, low_ + step);
      for (double t = low_; t <= high_ + step / 2; t += step) ticks_.push_back(t);
    }
  }
  double place(double v) const {
    const double x = log_ ? std::log(v) / std::log(base_) : v;
    return from_ + (to_ - from_) * (x - low_) / (high_ - low_);
  }
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  bool log_ = false;
  double base_ = 10, low_ = 0, high_ = 1, from_, to_;
  std::vector<double> ticks_;
};

/// A mark of the series' own shape.
std::string mark(std::size_t series, double x, double y) {
  const char* colour = kColours[series % kColours.size()];
  const auto polygon = [&](const std::string& points) {
    return fmt::format("<polygon points=\"{}\" fill=\"{}\"/>\n", points, colour);
  };
  switch (series % 4) {
    case 0: return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", x, y, colour);
    case 1:
      return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"6.4\" height=\"6.4\" fill=\"{}\"/>\n", x - 3.2,
                         y - 3.2, colour);
    case 2:
      return polygon(fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}", x, y - 4.4, x - 4, y + 3, x + 4, y + 3));
    default:
      return polygon(fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}", x, y - 4.6, x + 4.6, y, x,
                                 y + 4.6, x - 4.6, y));
  }
}

std::string text(double x, double y, const std::string& anchor, const std::string& content, int size = 12,
                 const std::string& more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\"{}>{}</text>\n", x, y, anchor,
                     size, more, escaped(content));
}

std::string panel_svg(const ChartPanel& panel, double top, const std::vector<std::string>& names) {
  double x_low = std::numeric_limits<double>::infinity(), x_high = -x_low, y_low = x_low, y_high = -x_low;
  for (const auto& s : panel.series)
    for (const auto& [x, y] : s.points) {
      x_low = std::min(x_low, x);
      x_high = std::max(x_high, x);
      y_low = std::min(y_low, y);
      y_high = std::max(y_high, y);
    }
  const double left = kLeft, right = kWidth - kRight, upper = top + kTop, lower = top + kPanelHeight - kBottom;
  std::string svg = text((left + right) / 2, top + 24, "middle", panel.title, 14, " font-weight=\"bold\"");
  if (x_low > x_high) return svg + text((left + right) / 2, (upper + lower) / 2, "middle", "no values");
  const Axis x_axis(x_low, x_high, left, right, true), y_axis(y_low, y_high, lower, upper, false);
  for (const double t : x_axis.ticks()) {
    const double x = x_axis.place(t);
    svg += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#dddddd\"/>\n", x,
                       upper, lower);
    svg += text(x, lower + 18, "middle", tick_text(t));
  }
  for (const double t : y_axis.ticks()) {
    const double y = y_axis.place(t);
    svg += fmt::format("<line x1=\"{1:.1f}\" y1=\"{0:.1f}\" x2=\"{2:.1f}\" y2=\"{0:.1f}\" stroke=\"#dddddd\"/>\n", y,
                       left, right);
    svg += text(left - 8, y + 4, "end", tick_text(t));
  }
  svg += fmt::format(
      "<polyline points=\"{0:.1f},{1:.1f} {0:.1f},{2:.1f} {3:.1f},{2:.1f}\" fill=\"none\" stroke=\"#333333\"/>\n", left,
      upper, lower, right);
  svg += text((left + right) / 2, lower + 40, "middle", panel.x_label);
  const double middle = (upper + lower) / 2;
  svg += text(22, middle, "middle", panel.y_label, 12, fmt::format(" transform=\"rotate(-90 22 {:.1f})\"", middle));
  for (const auto& s : panel.series) {
    const auto index = static_cast<std::size_t>(std::find(names.begin(), names.end(), s.name) - names.begin());
    std::string line, marks;
    for (const auto& [vx, vy] : s.points) {
      const double x = x_axis.place(vx), y = y_axis.place(vy);
      line += fmt::format("{}{:.1f},{:.1f}", line.empty() ? "" : " ", x, y);
      marks += mark(index, x, y);
    }
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"/>\n", line,
                       kColours[index % kColours.size()]);
    svg += marks;
  }
  return svg;
}

}  // namespace

std::string svg_chart(const std::string& title, const std::vector<ChartPanel>& panels) {
  std::vector<std::string> names;
  for (const auto& p : panels)
    for (const auto& s : p.series)
      if (std::find(names.begin(), names.end(), s.name) == names.end()) names.push_back(s.name);
  const double height = kTitleHeight + kPanelHeight * static_cast<double>(panels.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      kWidth, height);
  svg += text(kWidth / 2, 26, "middle", title, 16);
  for (std::size_t i = 0; i < panels.size(); ++i)
    svg += panel_svg(panels[i], kTitleHeight + kPanelHeight * static_cast<double>(i), names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double x = kWidth - kRight + 24, y = kTitleHeight + kTop + 12 + 20 * static_cast<double>(i);
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" stroke-width=\"1.6\"/>\n", x,
        x + 24, y, kColours[i % kColours.size()]);
    svg += mark(i, x + 12, y);
    svg += text(x + 32, y + 4, "start", names[i]);
  }
  return svg + "</svg>\n";
}

}  // namespace kb::cli
