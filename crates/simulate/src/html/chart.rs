//! Charts of a limit over time: admitted and refused requests as bars, and the used part of the quota.

use std::fmt::{self, Write as _};

use crate::report::SeriesReport;
use crate::series::Span;
use crate::time::{number, time};

/// Most bars of a chart.
const BARS: usize = 180;

/// The height of a chart, in units of its SVG `viewBox`.
const HEIGHT: u64 = 1_000;

/// Writes the charts of a limit.
pub(super) fn chart(page: &mut String, series: &SeriesReport) -> fmt::Result {
    let (bars, seconds) = bars(series);
    let most = bars.iter().map(|bar| bar.admitted + bar.refused).max();
    let most = most.unwrap_or(0).max(1);
    let width = bars.len();
    let used = bars.iter().map(|bar| bar.used).max().unwrap_or(0);
    let scale = |count: u64| (u128::from(count) * u128::from(HEIGHT) / u128::from(most)) as u64;
    writeln!(
        page,
        "<figure>
<figcaption><span class=\"key\">admitted</span><span class=\"key refused\">refused</span><span class=\"most\">up to {} in {}</span></figcaption>
<svg viewBox=\"0 0 {width} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"admitted and refused requests over time\">
<path class=\"line\" d=\"M0 0H{width}M0 {HEIGHT}H{width}\"/>",
        number(most),
        span(seconds)
    )?;
    let mut paths = [String::new(), String::new()];
    for (at, bar) in bars.iter().enumerate() {
        let (admitted, refused) = (scale(bar.admitted), scale(bar.refused));
        let top = HEIGHT - admitted;
        if admitted > 0 {
            write!(paths[0], "M{at} {HEIGHT}V{top}h1V{HEIGHT}z")?;
        }
        if refused > 0 {
            write!(paths[1], "M{at} {top}v-{refused}h1v{refused}z")?;
        }
    }
    let [admitted, refused] = paths;
    writeln!(
        page,
        "<path class=\"admitted\" d=\"{admitted}\"/><path class=\"refused-part\" d=\"{refused}\"/>"
    )?;
    for (at, bar) in bars.iter().enumerate() {
        let begins = time((series.from + at as u64 * seconds) * 1_000_000);
        writeln!(
            page,
            "<rect class=\"hit\" x=\"{at}\" width=\"1\" height=\"{HEIGHT}\"><title>{begins}: {} admitted, {} refused, {} % used</title></rect>",
            number(bar.admitted),
            number(bar.refused),
            bar.used / 10
        )?;
    }
    writeln!(page, "</svg>")?;
    writeln!(
        page,
        "<figcaption><span class=\"key used\">used of the quota, by the key that used most</span><span class=\"most\">up to {} %</span></figcaption>
<svg class=\"low\" viewBox=\"0 0 {width} 1000\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"used part of the quota over time\">
<path class=\"line\" d=\"M0 0H{width}M0 1000H{width}\"/><path class=\"use\" d=\"M0 1000{}\"/></svg>",
        used / 10,
        bars.iter().fold(String::new(), |mut path, bar| {
            // Writing to a String cannot fail.
            let _ = write!(path, "V{}h1", 1000 - bar.used.min(1000));
            path
        })
    )?;
    let end = series.from + width as u64 * seconds;
    writeln!(
        page,
        "<div class=\"axis\"><span>{}</span><span>{}</span></div>\n</figure>",
        time(series.from * 1_000_000),
        time(end * 1_000_000)
    )
}

/// Returns the bars of a chart, and the time that each bar covers, in seconds.
fn bars(series: &SeriesReport) -> (Vec<Span>, u64) {
    let together = series.spans.len().div_ceil(BARS).max(1);
    let bars = series.spans.chunks(together).map(|spans| {
        spans.iter().fold(Span::default(), |mut sum, span| {
            sum.take(*span);
            sum
        })
    });
    (bars.collect(), series.seconds * together as u64)
}

/// Formats a length of time.
fn span(seconds: u64) -> String {
    match seconds {
        seconds if seconds.is_multiple_of(3_600) => format!("{} h", seconds / 3_600),
        seconds if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}
