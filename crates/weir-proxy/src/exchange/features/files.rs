//! Phases Route and Response of a route with `files`: the file that the request names, on its way to the client.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use weir_config::{
    Feature, FilesFallback, ResponseOrigin, RouteTarget, Stage, Template, TemplatePart, TemplateValue,
    clean_path,
};
use weir_http::Method;
use weir_observe::{Cause, Failure, Party, Phase};

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::cgi_script::CgiScript;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::rerouting::{NextStep, leads_out};
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::answer;
use crate::exchange::features::cors;
use crate::exchange::features::headers::cgi::requested_path;
use crate::exchange::phases::end::{EarlyEnd, End};
use crate::exchange::placeholders::TemplateValues;
use crate::net::files::file::{DiskWait, OpenError};
use crate::relay::file::{BodyPiece, FileBody};
use crate::relay::memory::MemoryBody;
use crate::responder::Answer;
use crate::responder::files::listing;
use crate::responder::files::path::{FilePath, file_path, is_file_name, path_info};
use crate::responder::files::response::{FileResponse, ResponseRules, respond, whole};
use crate::responder::ranges::RangeBody;
use crate::state::connections::activity::Activity;
use crate::state::routes::static_files::{FilesPlan, FolderItem, OpenFile, OpenFiles};
use crate::state::snapshot::RoutePlan;

/// What answers a request.
enum FileAnswer {
    /// A script, that a server of FastCGI runs.
    Script(CgiScript),
    File(Rc<OpenFile>),
    /// A folder whose path lacks the slash at its end.
    Slash,
    /// A folder, to be listed.
    Listing(FilePath),
}

/// Why a path is not what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotThere {
    Missing,
    Forbidden,
    /// A folder, which has nothing to send, and whose path has no slash at its end.
    Folder,
}

/// Answers with a file; `None` when the upstream of the route is to answer.
///
/// # Errors
/// When there is no file and no upstream, or the client does not take the answer.
pub(in crate::exchange) async fn answer<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    route: &RoutePlan,
) -> EarlyEnd {
    acting::note(Stage::BeforeServer, Feature::Files);
    // As long as a file may be the answer, the upstream has not seen the request.
    let upstream = context.exchange.record.upstream.take();
    let is_answered = serve(context, route).await?;
    context.exchange.record.upstream = upstream.filter(|_| !is_answered);
    Ok(is_answered.then_some(End::Done))
}

async fn serve<U>(context: &mut Context<'_, impl ClientStream, U>, route: &RoutePlan) -> Result<bool, Ended> {
    let Some(files) = &route.files else { return Ok(false) };
    if cors::is_preflight_on(route, context.exchange) {
        return Ok(false);
    }
    let has_upstream = files.config.otherwise.is_some();
    let reads = matches!(context.exchange.request.method(), Method::Get | Method::Head);
    if !reads && files.scripts.is_none() {
        return match fallback_of(files, context.exchange) {
            _ if has_upstream => Ok(false),
            Some(FilesFallback::Target(target)) => match next_of(context, route, target)? {
                // It is there already: a file of this route, or nothing.
                NextStep::Target(next) if is_own_path(context.exchange, &next) => {
                    Err(Failure::weir(Phase::Route, Cause::MethodNotAllowed).into())
                }
                next => lead_on(context, next),
            },
            Some(FilesFallback::Status(_)) | None => {
                Err(Failure::weir(Phase::Route, Cause::MethodNotAllowed).into())
            }
        };
    }
    let answered = match choose_at_once(context, files) {
        Some(file) => Ok(FileAnswer::File(file)),
        // On the heap, since it is large and most exchanges need none of it.
        None => Box::pin(choose(context, route, files)).await?,
    };
    let not_there = match answered {
        Ok(FileAnswer::Script(script)) => {
            context.exchange.cgi_script = Some(Box::new(script));
            return Ok(false);
        }
        Ok(_) if !reads => return Err(Failure::weir(Phase::Route, Cause::MethodNotAllowed).into()),
        Ok(answered) => {
            if !context.stream.discard_body(context.client) {
                context.stream.close_after();
            }
            let sent = match answered {
                FileAnswer::File(file) => send(context, (route, files), &file).await,
                FileAnswer::Slash => redirect(context).await,
                FileAnswer::Script(_) => return Ok(false),
                FileAnswer::Listing(path) => Box::pin(list(context, files, &path)).await,
            };
            return sent.map(|()| true).map_err(Ended::Failed);
        }
        Err(not_there) => not_there,
    };
    let goes_on = match &files.scripts {
        None => has_upstream,
        Some(scripts) => scripts.script.is_some(),
    };
    if goes_on {
        return Ok(false);
    }
    match fallback_of(files, context.exchange) {
        None => {}
        Some(FilesFallback::Target(target)) => {
            let next = next_of(context, route, target)?;
            return lead_on(context, next);
        }
        Some(FilesFallback::Status(status)) => {
            context.exchange.rerouting_mut().next = Some(NextStep::Status(*status));
            return Err(Ended::Rerouted);
        }
    }
    let cause = match not_there {
        // As nginx and Apache do. It tells no more than the 403 that the client gets then.
        NotThere::Folder if files.sends && reads => {
            if !context.stream.discard_body(context.client) {
                context.stream.close_after();
            }
            return redirect(context).await.map(|()| true).map_err(Ended::Failed);
        }
        NotThere::Forbidden | NotThere::Folder if files.sends => Cause::FileForbidden,
        NotThere::Missing | NotThere::Forbidden | NotThere::Folder => Cause::FileMissing,
    };
    Err(Failure::weir(Phase::Response, cause).into())
}

/// What follows without a file; nothing for a request that is about no path, since that has none to go on with.
fn fallback_of<'a>(files: &'a FilesPlan, exchange: &Exchange) -> Option<&'a FilesFallback> {
    files.config.fallback.as_ref().filter(|_| exchange.has_path())
}

/// Where a request of the route goes on.
#[cold]
fn next_of<U>(
    context: &Context<'_, impl ClientStream, U>,
    route: &RoutePlan,
    target: &RouteTarget,
) -> Result<NextStep, Ended> {
    Ok(match target {
        RouteTarget::Route(name) => {
            let place = context.listener.route_named(name);
            NextStep::Route(place.ok_or(Failure::weir(Phase::Route, Cause::NoRoute))?)
        }
        RouteTarget::Path(path) => {
            let mut target = Vec::new();
            TemplateValues::new(context, Some(route)).write_url(path, &mut target);
            // A group of the route may have matched behind the slash.
            if target.first() != Some(&b'/') {
                target.insert(0, b'/');
            }
            NextStep::Target(clean_path(&target).map_err(leads_out)?)
        }
    })
}

/// Whether a target has the path of the request.
fn is_own_path(exchange: &Exchange, target: &[u8]) -> bool {
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    path == exchange.request.normal_path(&exchange.request_text)
}

/// Leaves the route.
#[cold]
fn lead_on<T, U>(context: &mut Context<'_, impl ClientStream, U>, next: NextStep) -> Result<T, Ended> {
    context.exchange.rerouting_mut().next = Some(next);
    Err(Ended::Rerouted)
}

/// The path by which files are looked for: that of the request after rewrites; with `alias`, what follows the prefix of the route.
fn path_of<'a>(exchange: &'a Exchange, files: &FilesPlan) -> Cow<'a, [u8]> {
    let Some(alias) = &files.config.alias else { return requested_path(exchange).into() };
    let mut path = Vec::new();
    alias.apply(exchange.request.normal_path(&exchange.request_text), None, &mut path);
    path.into()
}

/// The usual case: the path of the request is that of a file which is open, or can be opened without waiting.
fn choose_at_once<S, U>(context: &Context<'_, S, U>, files: &FilesPlan) -> Option<Rc<OpenFile>> {
    if !files.tries_path_first || !files.sends {
        return None;
    }
    let path = file_path(&path_of(context.exchange, files), files.config.hidden)?;
    if path.is_folder {
        return None;
    }
    match context.client.worker.open_files.look_up(files, &path.relative, context.client.now) {
        Ok(FolderItem::File(file)) => Some(file),
        _ => None,
    }
}

/// The first of the files of the route that exists.
async fn choose<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    route: &RoutePlan,
    files: &Arc<FilesPlan>,
) -> Result<Result<FileAnswer, NotThere>, Ended> {
    let mut not_there = NotThere::Missing;
    for place in 0..files.config.try_files.len() {
        let url_path = render(context, route, files, place);
        let Some(path) = file_path(&url_path, files.config.hidden) else {
            match encoded_script(context, files, &url_path).await? {
                Some(script) => return Ok(Ok(FileAnswer::Script(script))),
                None => continue,
            }
        };
        if let Some(script) = script(context, files, &path).await? {
            return Ok(Ok(FileAnswer::Script(script)));
        }
        let item = match files.trusts_names() && !files.sends && path.is_folder {
            true => Ok(FolderItem::Folder),
            false => look_up(context, files, &path.relative).await?,
        };
        match item {
            // There are scripts and nothing else; or with a slash behind its name, it would be a folder.
            Ok(FolderItem::File(_)) if !files.sends => {}
            Ok(FolderItem::Script) => {}
            // With a slash behind it, it would be a folder.
            Ok(FolderItem::File(_)) if path.is_folder => {}
            Ok(FolderItem::File(file)) => return Ok(Ok(FileAnswer::File(file))),
            Ok(FolderItem::Folder) => {
                // Only the path of the request can be asked for anew with a slash.
                let is_requested = files.is_path_of_request(place);
                let has_slash = path.is_folder && !lacks_slash(context.exchange, (route, files));
                let path = FilePath { is_folder: has_slash || !is_requested, ..path };
                match index(context, (route, files), &path).await? {
                    Ok(answered) => return Ok(Ok(answered)),
                    Err(why) => not_there = why,
                }
            }
            Err(NotThere::Missing) => {}
            Err(why) => not_there = why,
        }
    }
    Ok(Err(not_there))
}

/// Whether the path that the client sees is a folder without the slash, though what the rewrite made of it has one: `/files` for all
/// below `/files/`.
fn lacks_slash(exchange: &Exchange, (route, files): (&RoutePlan, &FilesPlan)) -> bool {
    let path = exchange.request.normal_path(&exchange.request_text);
    let rewrite = files.config.alias.as_ref().or(route.rewrite.as_deref());
    rewrite.is_some_and(|rewrite| rewrite.takes_whole(path))
}

/// The script that a path names, with what follows it.
async fn script<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    files: &Arc<FilesPlan>,
    path: &FilePath,
) -> Result<Option<CgiScript>, Ended> {
    let Some(scripts) = &files.scripts else { return Ok(None) };
    let Some(len) = scripts.script_len(&path.relative) else { return Ok(None) };
    let found = look_up(context, files, &path.relative[..len]).await?;
    Ok(matches!(found, Ok(FolderItem::Script)).then(|| CgiScript::in_path(path, len)))
}

/// The script at the front of a path that can be no file, since what follows the script has encoded slashes.
#[cold]
async fn encoded_script<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    files: &Arc<FilesPlan>,
    url_path: &[u8],
) -> Result<Option<CgiScript>, Ended> {
    let split = files.scripts.as_ref().and_then(|scripts| scripts.script_len(url_path));
    let Some((front, rest)) = split.map(|len| url_path.split_at(len)) else { return Ok(None) };
    let hidden = files.config.hidden;
    let Some((path, info)) = file_path(front, hidden).zip(path_info(rest, hidden)) else { return Ok(None) };
    let found = look_up(context, files, &path.relative).await?;
    let is_script = matches!(found, Ok(FolderItem::Script));
    Ok(is_script.then(|| CgiScript { path: [b"/", &path.relative[..]].concat(), path_info: info }))
}

/// What answers for a folder: its index file, a redirect that adds the slash, or a list of what is in it.
async fn index<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    (route, files): (&RoutePlan, &Arc<FilesPlan>),
    folder: &FilePath,
) -> Result<Result<FileAnswer, NotThere>, Ended> {
    let slash = if folder.relative.is_empty() { &b""[..] } else { b"/" };
    for name in &files.config.index {
        let Some(name) = index_name(context, (route, files), name) else { continue };
        let path = [&folder.relative, slash, &name[..]].concat();
        let answered = match look_up(context, files, &path).await? {
            Ok(FolderItem::File(file)) if files.sends => FileAnswer::File(file),
            Ok(FolderItem::Script) => {
                let path = FilePath { relative: path, is_folder: false };
                FileAnswer::Script(CgiScript::in_path(&path, path.relative.len()))
            }
            _ => continue,
        };
        return Ok(Ok(if folder.is_folder { answered } else { FileAnswer::Slash }));
    }
    Ok(match (files.config.listing, folder.is_folder) {
        (false, false) => Err(NotThere::Folder),
        (false, true) => Err(NotThere::Forbidden),
        (true, false) => Ok(FileAnswer::Slash),
        (true, true) => Ok(FileAnswer::Listing(folder.clone())),
    })
}

/// The name that an entry of `index` comes to; `None` where that names no file in the folder.
fn index_name<'a, U>(
    context: &Context<'_, impl ClientStream, U>,
    (route, files): (&RoutePlan, &FilesPlan),
    name: &'a Template,
) -> Option<Cow<'a, [u8]>> {
    if let Some(name) = name.literal() {
        return Some(name.as_bytes().into());
    }
    let values = TemplateValues::new(context, Some(route));
    let mut written = Vec::new();
    for part in name.parts() {
        match part {
            TemplatePart::Literal(text) => written.extend_from_slice(text.as_bytes()),
            TemplatePart::Value(value) => values.write_one(value, &mut written),
        }
    }
    is_file_name(&written, files.config.hidden).then_some(written.into())
}

/// The path that the entry of `try_files` at `place` comes to.
fn render<U>(
    context: &Context<'_, impl ClientStream, U>,
    route: &RoutePlan,
    files: &FilesPlan,
    place: usize,
) -> Vec<u8> {
    let values = TemplateValues::new(context, Some(route));
    let mut path = Vec::new();
    for part in files.config.try_files[place].parts() {
        match part {
            TemplatePart::Literal(text) => encode_percent(text.as_bytes(), &mut path),
            TemplatePart::Value(TemplateValue::Path | TemplateValue::DecodedPath) => {
                path.extend_from_slice(&path_of(context.exchange, files));
            }
            TemplatePart::Value(value) => values.write_one(value, &mut path),
        }
    }
    path
}

/// Text of the config stands for itself: what looks like an encoded byte is none.
fn encode_percent(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'%' => out.extend_from_slice(b"%25"),
            byte => out.push(byte),
        }
    }
}

/// What is at a path; waits for the disk if the answer is there.
async fn look_up<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    files: &Arc<FilesPlan>,
    path: &[u8],
) -> Result<Result<FolderItem<Rc<OpenFile>>, NotThere>, Ended> {
    if files.trusts_names() {
        // Without files to send, nothing at all is looked up.
        match files.is_script(path) {
            true => return Ok(Ok(FolderItem::Script)),
            false if !files.sends => return Ok(Err(NotThere::Missing)),
            false => {}
        }
    }
    let mut found = context.client.worker.open_files.look_up(files, path, context.client.now);
    if let Err(OpenError::WouldWait) = found {
        let loaded = wait(context, OpenFiles::load(files, path)).await?;
        found = loaded
            .and_then(|loaded| context.client.worker.open_files.put(files, path, loaded, context.client.now));
    }
    match found {
        Ok(item) => Ok(Ok(item)),
        Err(OpenError::Missing) => Ok(Err(NotThere::Missing)),
        Err(OpenError::Forbidden) => Ok(Err(NotThere::Forbidden)),
        Err(OpenError::WouldWait | OpenError::Failed(_)) => {
            Err(Failure::weir(Phase::Response, Cause::FileFailed).into())
        }
    }
}

/// Waits for what a thread finds on the disk.
async fn wait<T: Send + 'static, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    mut waiting: DiskWait<T>,
) -> Result<T, Failure> {
    context.exchange.waits.begin(&context.client.listener.plan().client_wait_limits());
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = waiting.poll(cx) {
            return Poll::Ready(outcome.map_err(|_lost| Failure::weir(Phase::Response, Cause::FileFailed)));
        }
        if let Some(cause) = context.stream.poll_gone(cx, context.client) {
            return Poll::Ready(Err(Failure::client(Phase::Response, cause)));
        }
        context.report(Activity::Disk);
        context.poll_over(Activity::Disk, 0).map(Err)
    })
    .await
}

async fn send<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    (route, files): (&RoutePlan, &FilesPlan),
    file: &OpenFile,
) -> Result<(), Failure> {
    // A body that is rewritten has no parts.
    let rules = ResponseRules {
        has_forms: !files.config.precompressed.is_empty(),
        ranges_max: if route.config.rewrite_body.is_none() { route.config.max_ranges } else { 0 },
    };
    let boundary = context.client.worker.random();
    let (fields, text) = (context.exchange.request.fields(), &context.exchange.request_text[..]);
    let FileResponse { file, mut head, body } =
        respond(context.exchange.request.method(), file, fields, text, rules, boundary);
    head.origin = ResponseOrigin::File;
    // Not of failures: how long a file may be kept says nothing about them.
    if !files.config.headers.is_empty() && matches!(head.status, 200 | 206 | 304) {
        add_headers(context, (route, files), &mut head);
    }
    match (body, &file.content) {
        (RangeBody::None, _) => answer::send(context, &head).await,
        (RangeBody::Whole, Some(content)) => {
            let body = (content.len() as u64, MemoryBody(content));
            answer::send_with(context, &head, body).await
        }
        (RangeBody::Whole, None) => Box::pin(send_file(context, &head, file, whole(file))).await,
        (RangeBody::Parts(pieces, len), _) => Box::pin(send_file(context, &head, file, (pieces, len))).await,
    }
}

/// Adds the headers that the config gives files, in place of those of the same names.
#[cold]
fn add_headers<'a, U>(
    context: &Context<'_, impl ClientStream, U>,
    (route, files): (&RoutePlan, &'a FilesPlan),
    head: &mut Answer<'a>,
) {
    let values = TemplateValues::new(context, Some(route));
    for (name, template) in &files.config.headers {
        let mut value = Vec::new();
        if values.write(template, &mut value) {
            let name = name.as_bytes();
            head.fields.retain(|(other, _)| {
                other.eq_ignore_ascii_case(b"vary") || !other.eq_ignore_ascii_case(name)
            });
            head.fields.push((name, value.into()));
        }
    }
}

/// Sends parts of a file from the disk.
async fn send_file<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    head: &Answer<'_>,
    file: &OpenFile,
    (pieces, len): (VecDeque<BodyPiece>, u64),
) -> Result<(), Failure> {
    let stock = Rc::clone(&context.client.worker.stock);
    let body = FileBody::new(&file.file, &stock, pieces);
    let sent = answer::send_with(context, head, (len, body)).await;
    sent.map_err(|failure| match failure.party {
        // What brings the bytes is the disk.
        Party::Server => Failure::weir(Phase::Relay, Cause::FileFailed),
        _ => failure,
    })
}

/// The same path with a slash at its end.
async fn redirect<U>(context: &mut Context<'_, impl ClientStream, U>) -> Result<(), Failure> {
    let (request, text) = (&context.exchange.request, &context.exchange.request_text[..]);
    let mut location = request.normal_path(text).to_vec();
    location.push(b'/');
    if let Some(query) = request.query() {
        location.push(b'?');
        location.extend_from_slice(query.of(text));
    }
    let location = TemplateValues::new(context, context.route()).redirect_url(location);
    let answer = Answer::new(301).with(b"Location", Cow::Owned(location));
    answer::send(context, &answer).await
}

async fn list<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    files: &Arc<FilesPlan>,
    folder: &FilePath,
) -> Result<(), Failure> {
    let names = wait(context, files.list(&folder.relative, listing::NAMES_MAX)).await?;
    let names = names.map_err(|_| Failure::weir(Phase::Response, Cause::FileFailed))?;
    let path = context.exchange.request.normal_path(&context.exchange.request_text).to_vec();
    let page = listing::answer(&path, &names, files.config.hidden);
    answer::send(context, &page).await
}
