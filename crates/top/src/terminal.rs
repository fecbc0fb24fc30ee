//! The terminal: taken over, and restored on every way out.

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

/// Pause between two drawings if no key is pressed.
const DRAW: Duration = Duration::from_millis(200);

/// Draws until the user quits, or a signal or a panic ends it. The terminal is restored on every way out.
pub(crate) fn run(reader: &Reader) -> Result<(), String> {
    held(|terminal, is_over| follow(terminal, reader, is_over))
}

/// Draws on the terminal until `draw` returns; its second argument returns whether it must end.
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
    // The hook restores the terminal before a panic of any thread is printed: from then on, draw no more.
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
