#!/usr/bin/env node
// Runs http-tests/cache-tests against caches side by side, each in front of the suite's own server, all on loopback.
//
//     run.mjs [--targets nginx,nginx-tuned,varnish,weir] [--weir PROGRAM] [--config FILE] [--rounds 1] [--save FOLDER]
//             [--id TEST] [--repository URL] [--baseline FILE]    (a results.json of before)
//
// The suite is not part of this repository: it is fetched once, at the commit below, into target/suites. Needs git, npm and
// Node 20.18 or later, and the programs of the targets. A config has three placeholders: {port}, {origin} (a port) and {folder}.
// FOLDER gets README.md and results.json; targets that are there from a run before are shown again and need not be run again.
// Exit status: 1 when a required test fails with Weir, or when a test that passes in the baseline does not pass any more.

import { execFileSync, spawn, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

const COMMIT = 'b55b8bda3dbb8c927c04e85bd8d496a8caa3e4ba'
const UNDICI = '7.30.2'
const HERE = path.dirname(fileURLToPath(import.meta.url))
const SUITE = path.resolve(HERE, '../../target/suites/cache-tests')

const { values: options } = parseArgs({
  options: {
    targets: { type: 'string', default: 'nginx,nginx-tuned,varnish,weir' },
    weir: { type: 'string', default: path.resolve(HERE, '../../target/dist/weir') },
    config: { type: 'string', default: path.join(HERE, 'weir.toml') },
    rounds: { type: 'string', default: '1' },
    save: { type: 'string' },
    id: { type: 'string' },
    baseline: { type: 'string' },
    repository: { type: 'string', default: 'https://github.com/http-tests/cache-tests.git' }
  }
})

// What is started for a target, how it tells its version, and its config.
const TARGETS = {
  direct: {},
  nginx: {
    config: path.join(HERE, 'nginx.conf'),
    command: (file, folder) => ['nginx', '-p', folder, '-c', file, '-e', `${folder}/error.log`],
    version: ['nginx', '-v']
  },
  'nginx-tuned': {
    config: path.join(HERE, 'nginx-tuned.conf'),
    command: (file, folder) => ['nginx', '-p', folder, '-c', file, '-e', `${folder}/error.log`],
    version: ['nginx', '-v']
  },
  varnish: {
    config: path.join(HERE, 'varnish.vcl'),
    // As the suite itself starts it.
    command: (file, folder, port) => ['varnishd', '-F', '-j', 'none', '-n', `${folder}/varnish`, '-a', `127.0.0.1:${port}`, '-f', file,
      '-p', 'default_ttl=0', '-p', 'default_grace=0', '-p', 'default_keep=3600', '-s', 'malloc,64M'],
    version: ['varnishd', '-V']
  },
  weir: {
    config: options.config,
    command: file => [options.weir, 'serve', file],
    version: [options.weir, '--version']
  }
}

const started = []

function start (command, log, env = {}, cwd = undefined) {
  const out = fs.openSync(log, 'a')
  const child = spawn(command[0], command.slice(1), { cwd, stdio: ['ignore', out, out], env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin`, ...env } })
  child.on('error', error => fs.appendFileSync(log, `${command[0]}: ${error.message}\n`))
  return watched(child)
}

function watched (child) {
  child.ended = new Promise(resolve => { child.on('exit', resolve); child.on('error', resolve) })
  started.push(child)
  return child
}

async function stop (child) {
  child.kill('SIGTERM')
  if (await Promise.race([child.ended.then(() => 'ended'), pause(5000)]) !== 'ended') child.kill('SIGKILL')
}

function freePort () {
  return new Promise(resolve => {
    const server = net.createServer()
    server.listen(0, '127.0.0.1', () => { const { port } = server.address(); server.close(() => resolve(port)) })
  })
}

async function listens (port, child, log) {
  for (let tries = 0; tries < 200; tries++) {
    const open = await new Promise(resolve => {
      const socket = net.connect(port, '127.0.0.1')
      socket.on('connect', () => { socket.destroy(); resolve(true) })
      socket.on('error', () => resolve(false))
    })
    if (open) return
    if (child.exitCode !== null) break
    await pause(50)
  }
  throw new Error(`nothing listens on port ${port}:\n${fs.readFileSync(log, 'utf8')}`)
}

function fetchSuite () {
  const tests = path.join(SUITE, 'tests')
  const git = (...words) => execFileSync('git', ['-C', tests, ...words], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim()
  if (!fs.existsSync(path.join(tests, '.git'))) {
    fs.mkdirSync(tests, { recursive: true })
    git('init', '--quiet')
  }
  let has = ''
  try { has = execFileSync('git', ['-C', tests, 'rev-parse', '--verify', '--quiet', 'HEAD'], { encoding: 'utf8' }).trim() } catch {}
  if (has !== COMMIT) {
    git('fetch', '--quiet', '--depth', '1', options.repository, COMMIT)
    git('checkout', '--quiet', '--force', 'FETCH_HEAD')
  }
  // The one package that its client loads, for interim responses; beside the suite, whose own list has more.
  if (!fs.existsSync(path.join(SUITE, 'node_modules/undici'))) {
    fs.writeFileSync(path.join(SUITE, 'package.json'), JSON.stringify({ private: true, dependencies: { undici: UNDICI } }))
    execFileSync('npm', ['install', '--quiet', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: SUITE, stdio: 'inherit' })
  }
  return tests
}

const versionOf = ([program, flag]) => {
  const { stdout, stderr } = spawnSync(program, [flag], { encoding: 'utf8', env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` } })
  return `${stdout ?? ''}${stderr ?? ''}`.split('\n')[0].replace(/^.*(?:version: |\()/, '').replace(/ revision.*/, '').trim()
}

async function runTarget (name, suite) {
  const target = TARGETS[name]
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), `cache-tests-${name}-`))
  fs.chmodSync(folder, 0o777)
  const [origin, port] = [await freePort(), await freePort()]
  const common = { npm_config_id: options.id ?? '', npm_package_config_id: '' }
  const log = path.join(folder, 'log')
  const server = start([process.execPath, 'test-engine/server/server.mjs'], `${log}.origin`,
    { ...common, npm_config_protocol: 'http', npm_config_port: `${origin}`, npm_config_pidfile: path.join(folder, 'pid') }, suite)
  try {
    await listens(origin, server, `${log}.origin`)
    let base = origin
    let proxy
    if (target.config) {
      base = port
      const file = path.join(folder, path.basename(target.config))
      const words = { port, origin, folder }
      fs.writeFileSync(file, fs.readFileSync(target.config, 'utf8').replace(/\{(port|origin|folder)\}/g, (_, word) => words[word]))
      proxy = start(target.command(file, folder, port), log)
      await listens(port, proxy, log)
    }
    const client = watched(spawn(process.execPath, ['--no-warnings', 'test-engine/cli.mjs'],
      { cwd: suite, env: { ...process.env, ...common, npm_config_base: `http://127.0.0.1:${base}` }, stdio: ['ignore', 'pipe', options.id ? 'inherit' : 'ignore'] }))
    let text = ''
    client.stdout.on('data', data => { text += data })
    const code = await new Promise(resolve => client.on('close', resolve))
    if (code !== 0) throw new Error(`the client ended with ${code}: ${text.slice(-500)}`)
    if (proxy && proxy.exitCode !== null) throw new Error(`${name} has ended:\n${fs.readFileSync(log, 'utf8')}`)
    if (options.id) { console.log(`#### ${name}\n${text}`); return {} }
    return JSON.parse(text)
  } finally {
    for (const child of started.splice(0)) await stop(child)
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

// The words of the suite for what became of a test, in its three kinds.
const KINDS = { required: 'required', optimal: 'optional', check: 'behaviour' }

async function judge (suite, rounds) {
  const load = file => import(pathToFileURL(path.join(suite, file)))
  const { default: suites } = await load('tests/index.mjs')
  const { determineTestResult, resultTypes } = await load('test-engine/lib/results.mjs')
  const words = new Map(Object.entries(resultTypes).map(([word, type]) => [type, word]))
  const tests = {}
  for (const group of suites) {
    for (const test of group.tests) {
      if (test.browser_only) continue
      const outcomes = rounds.map(round => words.get(determineTestResult(suites, test.id, round)))
      // What fails once fails: the order is from bad to good.
      const order = ['fail', 'harness_fail', 'setup_fail', 'retry', 'dependency_fail', 'optional_fail', 'no', 'untested', 'yes', 'pass']
      const outcome = order.find(word => outcomes.includes(word))
      const at = outcomes.indexOf(outcome)
      const said = rounds[at][test.id]
      tests[test.id] = {
        kind: KINDS[test.kind ?? 'required'], group: group.id, outcome, ...(Array.isArray(said) && { said: said[1] }), ...(new Set(outcomes).size > 1 && { unsteady: true })
      }
    }
  }
  return tests
}

const good = test => ['pass', 'yes'].includes(test.outcome)

function count (tests, kind) {
  const of = Object.values(tests).filter(test => test.kind === kind)
  const sum = {}
  for (const test of of) sum[test.outcome] = (sum[test.outcome] ?? 0) + 1
  return { all: of.length, good: of.filter(good).length, ...sum }
}

function table (results) {
  const names = Object.keys(results)
  const caches = names.filter(name => name !== 'direct')
  const row = cells => `| ${cells.join(' | ')} |\n`
  let text = `# HTTP caches side by side\n\nhttp-tests/cache-tests at ${COMMIT.slice(0, 12)}. A test counts as what it was in the worst of the rounds.\n\n`
  text += row(['', ...names]) + row(['---', ...names.map(() => '---:')])
  text += row(['version', ...names.map(name => results[name].version || '')])
  text += row(['rounds', ...names.map(name => results[name].rounds)])
  const lines = [
    ['required: passed', 'required', sum => `${sum.good} of ${sum.all}`], ['required: **failed**', 'required', sum => sum.fail ?? 0],
    ['required: not judged (a test that it depends on, its setup, a retry)', 'required', sum => sum.all - sum.good - (sum.fail ?? 0)],
    ['optional: passed', 'optional', sum => `${sum.good} of ${sum.all}`], ['optional: failed', 'optional', sum => sum.optional_fail ?? 0],
    ['optional: not judged', 'optional', sum => sum.all - sum.good - (sum.optional_fail ?? 0)],
    ['behaviour: yes', 'behaviour', sum => `${sum.good} of ${sum.all}`], ['behaviour: no', 'behaviour', sum => sum.no ?? 0]
  ]
  for (const [label, kind, show] of lines) text += row([label, ...names.map(name => show(count(results[name].tests, kind)))])
  text += row(['unsteady over the rounds', ...names.map(name => Object.values(results[name].tests).filter(test => test.unsteady).length)])
  const ids = Object.keys(results[names[0]].tests)
  for (const kind of ['required', 'optional', 'behaviour']) {
    const differ = ids.filter(id => caches.some(name => results[name].tests[id].kind === kind && !good(results[name].tests[id])) &&
      (kind !== 'behaviour' || new Set(caches.map(name => results[name].tests[id].outcome)).size > 1))
    text += `\n## ${kind}: ${kind === 'behaviour' ? 'where they differ' : 'what at least one does not pass'}\n\n`
    text += row(['test', ...names]) + row(['---', ...names.map(() => '---')])
    for (const id of differ) text += row([`\`${id}\``, ...names.map(name => good(results[name].tests[id]) ? '' : results[name].tests[id].outcome.replace('_', ' '))])
  }
  for (const name of names) {
    const failed = ids.filter(id => results[name].tests[id].outcome === 'fail')
    if (failed.length === 0) continue
    text += `\n## What ${name} fails of what is required\n\n`
    for (const id of failed) text += `- \`${id}\`: ${results[name].tests[id].said}\n`
  }
  return text
}

function worse (results) {
  const now = results.weir?.tests
  if (!now) return []
  const before = options.baseline ? JSON.parse(fs.readFileSync(options.baseline, 'utf8')).weir.tests : {}
  return Object.keys(now).filter(id => now[id].outcome === 'fail' || (before[id] && good(before[id]) && !good(now[id]) && now[id].kind !== 'behaviour'))
}

const suite = fetchSuite()
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { for (const child of started) child.kill('SIGKILL'); process.exit(130) })
// One line for each test, so that changes show.
function write (results) {
  const tests = tests => Object.entries(tests).map(([id, test]) => `   ${JSON.stringify(id)}: ${JSON.stringify(test)}`).join(',\n')
  const targets = Object.entries(results).map(([name, { version, rounds, tests: all }]) =>
    ` ${JSON.stringify(name)}: {\n  "version": ${JSON.stringify(version)}, "rounds": ${rounds}, "tests": {\n${tests(all)}\n  }\n }`)
  return `{\n "commit": ${JSON.stringify(COMMIT)},\n${targets.join(',\n')}\n}\n`
}

const kept = options.save && path.join(options.save, 'results.json')
const { commit, ...before } = kept && fs.existsSync(kept) ? JSON.parse(fs.readFileSync(kept, 'utf8')) : {}
const results = commit === COMMIT && !options.id ? before : {}
for (const name of options.targets.split(',')) {
  if (!TARGETS[name]) throw new Error(`no target ${name}: ${Object.keys(TARGETS).join(', ')}`)
  const rounds = []
  for (let round = 0; round < Number(options.rounds); round++) {
    process.stderr.write(`${name}, round ${round + 1} of ${options.rounds}\n`)
    rounds.push(await runTarget(name, suite))
  }
  if (!options.id) results[name] = { version: TARGETS[name].version ? versionOf(TARGETS[name].version) : '', rounds: rounds.length, tests: await judge(suite, rounds) }
}
if (!options.id) {
  const text = table(results)
  console.log(text)
  if (options.save) {
    fs.mkdirSync(options.save, { recursive: true })
    fs.writeFileSync(path.join(options.save, 'README.md'), text)
    fs.writeFileSync(kept, write(results))
  }
  const bad = worse(results)
  if (bad.length) {
    console.log(`Weir fails: ${bad.join(', ')}`)
    process.exitCode = 1
  }
}
