//! Locations of scripts: by the end of their names, one by one, and in a prefix.

use std::collections::BTreeMap;

use super::answer::matching;
use super::locations::Location;
use super::site::{Draft, Made, see_all};
use crate::flash::{PlaceName, Setting, Value, set_more};
use crate::note::{Of, Paths};
use crate::pattern::Shape;

impl<'t> Draft<'t> {
    /// A regular expression in a prefix: for scripts there.
    pub(super) fn nested(&mut self, location: &Location<'t>, within: String, shapes: &[Shape]) {
        let (scope, of) = (&location.scope, location.of);
        let concerns = Paths::BelowEnds(within.trim_end_matches('/').into(), String::new());
        let end = shapes.iter().find_map(|shape| match shape {
            Shape::Ends(end) => Some(end.clone()),
            _ => None,
        });
        let Some(end) = end else {
            see_all(scope);
            return scope.left(of, "Flash has no ends of names below a prefix alone", concerns);
        };
        let made = self.made(&self.at(scope, Paths::Ends(end.clone()), ""));
        let plain = within.trim_end_matches('/').to_owned();
        let place = self.site.places.iter_mut().find(|place| place.name == PlaceName::Below(plain.clone()));
        match (made.settings.get("fastcgi"), place) {
            (Some(fastcgi), Some(place)) => _ = place.settings.insert("fastcgi", fastcgi.clone()),
            (Some(fastcgi), None) => {
                let mut settings = self.site.own.clone();
                settings.insert("fastcgi", fastcgi.clone());
                self.add(PlaceName::Below(plain), settings, Some(&of.source));
            }
            (None, _) if made.answers.is_missing || made.settings.contains_key("deny") => {
                set_more(&mut self.site.own, "no-programs", &plain, &of.source);
                scope.differs(&of.source, "scripts there get 403", concerns, Of::Status);
            }
            _ => scope.left(of, "Flash has no ends of names below a prefix alone", concerns),
        }
    }

    /// A single script: `location = /index.php`.
    pub(super) fn program(&mut self, location: &Location<'t>, made: &mut Made, path: &str) {
        let Some(end) = path.rfind('.').map(|dot| &path[dot..]) else { return };
        let why = format!("all scripts that end in {end} have the path after their names, and are run by it");
        let paths = Paths::Has(format!("{end}/"));
        location.scope.differs(&location.of.source, why, paths, Of::Everything);
        let Some(Value::Table(routes)) = made.settings.get("fastcgi").map(|of| &of.value) else { return };
        let address = routes.values().next().cloned().unwrap_or_default();
        let table = BTreeMap::from([(end.to_owned(), address)]);
        let setting = Setting::new(Value::Table(table), Some(&location.of.source));
        made.settings.insert("fastcgi", setting.clone());
        self.site.own.entry("fastcgi").or_insert(setting);
    }

    /// Scripts by the end of their names: the site runs them, and their place has the location's rules.
    pub(super) fn script(
        &mut self,
        location: &Location<'t>,
        made: &mut Made,
        shapes: &[Shape],
        expression: &str,
    ) {
        let (scope, of) = (&location.scope, location.of);
        if made.settings.remove("internal").is_some() {
            let paths = Paths::Any(
                shapes
                    .iter()
                    .map(|shape| match shape {
                        Shape::Exact(path) | Shape::Begins(path) => Paths::Begins(path.clone()),
                        Shape::Ends(end) | Shape::Info(end) => Paths::Has(end.clone()),
                        _ => matching(expression),
                    })
                    .collect(),
            );
            scope.differs(&of.source, "clients may ask for the script itself", paths, Of::Everything);
        }
        let has_info = shapes.iter().any(|shape| matches!(shape, Shape::Info(_)));
        for shape in shapes {
            match shape {
                Shape::Ends(end) => {
                    if let Some(setting) = made.settings.get("fastcgi").cloned() {
                        self.site.own.entry("fastcgi").or_insert(setting);
                    }
                    if !has_info {
                        let why = "a script has the path after its name, too";
                        scope.differs(&of.source, why, Paths::Has(format!("{end}/")), Of::Everything);
                    }
                    self.add(PlaceName::Ends(end.clone()), made.settings.clone(), Some(&of.source));
                }
                Shape::Info(end) if !shapes.contains(&Shape::Ends(end.clone())) => {
                    let why = "a script ends in it, or has a path after it, and is there";
                    let paths = Paths::Matches(format!("\\{end}."), true);
                    scope.differs(&of.source, why, paths, Of::Everything);
                    let Some(Value::Table(routes)) = made.settings.get("fastcgi").map(|of| &of.value) else {
                        continue;
                    };
                    let address = routes.values().next().cloned().unwrap_or_default();
                    let table = BTreeMap::from([(end.clone(), address)]);
                    let setting = Setting::new(Value::Table(table), Some(&of.source));
                    made.settings.insert("fastcgi", setting.clone());
                    self.site.own.entry("fastcgi").or_insert(setting);
                    self.add(PlaceName::Ends(end.clone()), made.settings.clone(), Some(&of.source));
                }
                Shape::Info(_) => {}
                Shape::Exact(path) => {
                    self.program(location, made, path);
                    self.add(PlaceName::Exact(path.clone()), made.settings.clone(), Some(&of.source));
                }
                Shape::Begins(path) if path.trim_end_matches('/').contains('.') => {
                    self.program(location, made, path.trim_end_matches('/'));
                }
                _ => scope.left(
                    of,
                    "Flash finds scripts by the end of their names, or below a prefix",
                    matching(expression),
                ),
            }
        }
    }
}
