//! Keys and what they show, on a terminal that is only memory.

use flash_sleep::Cause;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::block::Block;

fn block(call: &str, cause: Cause, path: &str, us: u64) -> Block {
    Block { call: call.into(), cause, path: Some(path.into()), us, ready: Some(3), ..Block::of_thread(7) }
}

fn shown(view: &View, summary: &Summary) -> String {
    let totals = ThreadTotals { pid: 1, thread: 7, is_loop: true, ..ThreadTotals::default() };
    let mut terminal = Terminal::new(TestBackend::new(150, 8)).expect("memory is a terminal");
    terminal.draw(|frame| view.draw(frame, "nginx", summary, &[totals], 1.0)).expect("it can be drawn on");
    terminal.backend().to_string()
}

fn press(view: &mut View, keys: &str) -> bool {
    keys.chars().any(|key| {
        let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
        view.press(KeyEvent::new(code, KeyModifiers::NONE))
    })
}

#[test]
fn sorts_filters_and_ends() {
    let mut summary = Summary::default();
    summary.add(&block("openat", Cause::MetadataRead, "/a/long", 9000));
    for _ in 0..3 {
        summary.add(&block("read", Cause::PageCacheRead, "/b/often", 100));
    }
    let mut view = View::default();
    let first = shown(&view, &summary);
    assert!(first.find("/a/long") < first.find("/b/often"), "{first}");
    assert!(
        first.contains("1 loops") && first.contains("97 % of the time asleep: openat of /a/long"),
        "{first}"
    );
    assert!(!press(&mut view, "c"));
    let by_count = shown(&view, &summary);
    assert!(by_count.find("/b/often") < by_count.find("/a/long"), "{by_count}");
    assert!(!press(&mut view, "/often\n"), "q and c are letters of a filter");
    let filtered = shown(&view, &summary);
    assert!(!filtered.contains("/a/long  ") && filtered.contains("only with 'often'"), "{filtered}");
    assert!(press(&mut view, "q"));
}
