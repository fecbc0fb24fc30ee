//! Takes over the terminal. Restores the terminal when the program ends, even by a signal or a panic.

#[cfg(test)]
mod tests;

use std::io;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::reader::Reader;
use crate::screen::View;

/// The pause between two drawings if no key is pressed.
const DRAW: Duration = Duration::from_millis(200);

/// Draws until the user quits, or a signal or a panic ends the program. Then restores the terminal.
pub(crate) fn run(reader: &Reader) -> Result<(), String> {
    held(|terminal, is_over| follow(terminal, reader, is_over))
}

/// Calls `draw` with the terminal, and restores the terminal when `draw` returns. The second argument of `draw` returns whether `draw` must
/// end.
fn held(
    draw: impl FnOnce(&mut DefaultTerminal, &dyn Fn() -> bool) -> io::Result<()>,
) -> Result<(), String> {
    let unusable = |error: io::Error| format!("the terminal cannot be used: {error}");
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
        signal_hook::consts::SIGINT,
    ] {
        signal_hook::flag::register(signal, stop.clone()).map_err(unusable)?;
    }
    // `try_init` also sets a panic hook, which restores the terminal before a panic is printed. After a panic the program must not draw any
    // more.
    let mut terminal = ratatui::try_init().map_err(unusable)?;
    let has_panicked = Arc::new(AtomicBool::new(false));
    let (restore, panicking) = (panic::take_hook(), has_panicked.clone());
    panic::set_hook(Box::new(move |about| {
        panicking.store(true, Ordering::Relaxed);
        restore(about);
    }));
    let is_over = || stop.load(Ordering::Relaxed) || has_panicked.load(Ordering::Relaxed);
    let drawn = draw(&mut terminal, &is_over);
    ratatui::restore();
    match has_panicked.load(Ordering::Relaxed) {
        true => Err("a part of this program failed; the message above says where".to_owned()),
        false => drawn.map_err(unusable),
    }
}

fn follow(
    terminal: &mut DefaultTerminal,
    reader: &Reader,
    is_over: &dyn Fn() -> bool,
) -> io::Result<()> {
    let mut view = View::new();
    while !is_over() {
        view.take(reader);
        terminal.draw(|frame| view.draw(frame))?;
        if event::poll(DRAW)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && view.press(key, reader)
        {
            return Ok(());
        }
    }
    Ok(())
}
