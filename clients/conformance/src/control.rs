//! What a client's test talks to.

use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::case::Cases;
use crate::request::Request;
use crate::stage::Stage;
use crate::verdict;

/// Serves the cases for as long as the process runs, and returns where.
///
/// # Errors
/// There is no port.
pub fn serve(cases: Cases) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let at = listener.local_addr()?;
    let control = Arc::new(Control { cases, stage: Mutex::new(None) });
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let control = Arc::clone(&control);
            std::thread::spawn(move || control.converse(&stream));
        }
    });
    Ok(at)
}

struct Control {
    cases: Cases,
    stage: Mutex<Option<Stage>>,
}

impl Control {
    /// Answers one request, and ends the connection.
    fn converse(&self, mut stream: &TcpStream) {
        let Some(request) = Request::read(&mut BufReader::new(stream)) else { return };
        let (status, body) = self.answer(&request);
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} Control\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        // A test that went away needs no answer.
        drop(stream.write_all((head + &body).as_bytes()));
    }

    fn answer(&self, request: &Request) -> (u16, Value) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let parts: Vec<_> = request.target.split('/').skip(1).collect();
        match (request.method.as_str(), parts.as_slice(), &mut *stage) {
            ("POST", ["cases", name], stage) => {
                // The former case ends first.
                drop(stage.take());
                let Some(case) = self.cases.cases.iter().find(|case| case.name == *name) else {
                    return (404, json!({"fault": format!("there is no case {name}")}));
                };
                match Stage::new(case.clone()) {
                    Ok(new) => (200, json!({"endpoints": stage.insert(new).endpoints()})),
                    Err(error) => (500, json!({"fault": error.to_string()})),
                }
            }
            ("POST", ["phases", name], Some(stage)) => match stage.enter(name) {
                Ok(()) => (200, json!({})),
                Err(error) => (500, json!({"fault": error.to_string()})),
            },
            ("GET", ["verdict"], Some(stage)) => {
                let seen = stage.seen();
                let faults = verdict::faults(stage.case(), &seen);
                if faults.is_empty() {
                    return (200, json!({"ok": true}));
                }
                let requests = verdict::shown(&seen);
                (200, json!({"ok": false, "faults": faults, "requests": requests}))
            }
            _ => (404, json!({"fault": "there is no such path, or no case is being played"})),
        }
    }
}
