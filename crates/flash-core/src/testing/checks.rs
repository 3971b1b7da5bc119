//! The driver's part in log-ins: a check is made at once, or waits until a test makes it.

use super::{Client, Jobs, Waits, World};
use crate::clients::login::Check;
use crate::exchange::id::ExchangeId;
use crate::job::Done;

impl World {
    /// A connection wants a check of its log-in.
    pub(super) fn check_wanted(&mut self, client: &mut Client, id: ExchangeId) {
        let check = client.connection.check(id).expect("it wants a check");
        match self.jobs {
            Jobs::Later => client.check = Some((id, check)),
            Jobs::AtOnce | Jobs::AtOnceOrLater => self.check_login(client, id, &*check),
        }
    }

    fn check_login(&mut self, client: &mut Client, id: ExchangeId, check: &dyn Check) {
        let checked = Done::Checked(check.run(self.now.ms()));
        self.with(client, |connection, cx| connection.completed(id, checked.into(), cx));
    }

    /// Does the pending check of a log-in.
    pub(crate) fn check(&mut self, client: &mut Client) -> Waits {
        let (id, check) = client.check.take().expect("a check is pending");
        self.check_login(client, id, &*check);
        self.turn(client)
    }
}
