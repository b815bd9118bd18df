import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { invalidArgument } from '../../core/errors.ts'
import { show, text } from '../../core/options.ts'
import { type AlertSubscribeOptions, createAlerts } from '../../fleet/alerts/index.ts'
import type { SubscriptionChannel } from '../../monitor/index.ts'
import { resolveSecretKeys, resolveSetting } from '../config/config.ts'
import { addSettingFlags, resolveDatabase, sourcesOf } from '../config/flags.ts'
import { spanOf } from '../config/value-kinds.ts'
import { type Printer, printList, showSpan } from '../print.ts'
import type { CommandContext } from '../verbs.ts'
import {
  type BoxFlags,
  CliCommand,
  type Flags,
  openBox,
  requireDatabase,
  requireFile,
  serverInEnvironment,
} from './cli-command.ts'
import { explainCommand, notificationsCommand, replayCommand } from './monitor-notifications.ts'

/** `signalbox monitor …`: lists, replays and explains notifications; tests and reseals channels. */
export function monitorCommand({ printer, endWith }: CommandContext): Command {
  return new CliCommand('monitor').group(
    notificationsCommand(printer),
    replayCommand(printer, endWith),
    explainCommand(printer),
    testCommand(printer, endWith),
    resealCommand(printer, endWith),
  )
}

function testCommand(printer: Printer, endWith: (exitCode: number) => void): CliCommand {
  const command = new CliCommand(
    'test',
    'send a test message through a channel now, without queue and limits',
  )
    .argument('<file>', 'a JSON file with the channel of a subscription; - reads standard input')
    .option(
      '--url <url>',
      'the server that sends it; SIGNALBOX_TOKEN holds its token (default: send from here)',
    )
    .option('--namespace <name>', 'the namespace of the request (default: default, or the token’s)')
    .option('--json', 'answer with one line of JSON')
    .note(
      'A channel holds secrets, so it is read from a file and never from the command line:',
      '  {"type":"slack","url":"https://hooks.slack.com/services/…"}',
      '',
      'Exit codes: 0 the channel accepted the message, 1 it did not.',
    )
    .examples(
      'monitor test channel.json',
      'monitor test channel.json --url http://127.0.0.1:7420 --json',
      'monitor test - < channel.json',
    )
    .action(async (file: string, { url = serverInEnvironment(), namespace, json }: BoxFlags) => {
      const channel = readChannel(file)
      const answer = await test(command, channel, url, namespace)
      if (json) printer.json(answer)
      else if (answer.ok) printer.line(`${answer.shown} accepted a test message`)
      else printer.problem(`${answer.shown ?? 'the channel'}: ${answer.reason}`)
      if (!answer.ok) endWith(1)
    })
  return addSettingFlags(command, ['allowPrivate'])
}

/** Sends the test through the named server, else from this machine, which needs no store. */
async function test(
  command: Command,
  channel: SubscriptionChannel,
  url: string | undefined,
  namespace: string | undefined,
) {
  if (url === undefined) {
    const allowPrivate = resolveSetting('allowPrivate', sourcesOf(command))
    const { open } = await import('../../index.ts')
    await using box = await open('memory:', { allowPrivate, contention: false })
    return await box.monitor.test(channel)
  }
  await using box = await openBox(command, { url, ...(namespace !== undefined && { namespace }) })
  return await box.monitor.test(channel)
}

/** Reads a channel from a file. Errors do not quote the text, because it has secrets. */
function readChannel(file: string): SubscriptionChannel {
  const name = file === '-' ? 'Standard input' : show(file)
  const refuse = (why: string) => invalidArgument(`${name} ${why}`, 'file')
  let content: string
  try {
    content = readFileSync(file === '-' ? 0 : file, 'utf8')
  } catch (error) {
    throw refuse(`cannot be read (${(error as NodeJS.ErrnoException).code}).`)
  }
  let channel: unknown
  try {
    channel = JSON.parse(content)
  } catch {
    // The parser's own message would quote the text.
    throw refuse('does not contain JSON.')
  }
  if (typeof channel === 'object' && channel !== null && !Array.isArray(channel))
    return channel as SubscriptionChannel
  throw refuse(
    'must contain one channel: an object with a type, such as {"type":"webhook","url":…,"secret":…}.',
  )
}

/** More namespaces than any server has. */
const maxNamespaces = 10_000

/** `signalbox monitor reseal`: seals the secrets of all channels in a database with the first key. */
function resealCommand(printer: Printer, endWith: (exitCode: number) => void): CliCommand {
  const command = new CliCommand(
    'reseal',
    'encrypt the secrets of all channels in the database with the first key',
  )
    .option('--namespace <name>', 'only this namespace (default: all)')
    .option('--json', 'answer with one line of JSON')
    .note(
      'SIGNALBOX_SECRET_KEY holds the keys, separated by commas; or --secret-key-file names a file with one key a line. The first',
      'key encrypts, every key decrypts. Give the first key to all servers of the database before you run this.',
      '',
      'Exit codes: 0 all are encrypted with the first key, 1 some could not be decrypted.',
    )
    .examples(
      'monitor reseal',
      'monitor reseal --database postgres://app@db/shop --secret-key-file /run/secrets/signalbox-keys',
    )
    .action(async ({ namespace, json }: BoxFlags) => {
      const answer = await reseal(command, namespace)
      const { resealed, current, unreadable } = answer
      if (!json) for (const { message } of unreadable) printer.problem(message)
      const line = `${resealed} encrypted with the first key, ${current} already encrypted with it, ${unreadable.length} could not be decrypted`
      printer.answer(json, answer, line)
      if (unreadable.length > 0) endWith(1)
    })
  return addSettingFlags(command, ['database', 'secretKeyFile'])
}

async function reseal(command: Command, namespace: string | undefined) {
  requireDatabase(command, 'monitor reseal', 'A server has no route for that.')
  const keys = resolveSecretKeys(sourcesOf(command))
  const database = resolveDatabase(command)
  requireFile(database)
  const { open } = await import('../../index.ts')
  const openOne = (name: string) =>
    open(database, {
      namespace: name,
      ...(keys.length === 0 ? {} : { secretKey: keys }),
      contention: false,
    })
  await using first = await openOne(namespace === undefined ? 'default' : text('--namespace', namespace))
  const namespaces =
    namespace === undefined ? await first.backend.subscribedNamespaces(maxNamespaces) : [namespace]
  const total = { resealed: 0, current: 0 }
  const unreadable = []
  for (const name of namespaces) {
    await using box = await openOne(name)
    const answer = await box.monitor.reseal()
    total.resealed += answer.resealed
    total.current += answer.current
    unreadable.push(...answer.unreadable.map((one) => ({ namespace: name, ...one })))
  }
  // Without subscriptions there is nothing to seal, but this call refuses a missing key.
  if (namespaces.length === 0) await first.monitor.reseal()
  return { ...total, unreadable }
}

/** `signalbox alerts ls|add|rm|test`: shows alerts about the fleet, and manages the channels that get them. */
export function alertsCommand({ printer, endWith }: CommandContext): Command {
  return new CliCommand('alerts')
    .note('Servers look for alerts only while a channel wants them.')
    .group(
      listAlertsCommand(printer),
      addAlertsCommand(printer),
      removeAlertsCommand(printer),
      testAlertCommand(printer, endWith),
    )
}

function listAlertsCommand(printer: Printer): CliCommand {
  return new CliCommand('ls', 'list the alerts that fire, and who is alerted')
    .examples('alerts ls --json')
    .onBox(({ json }: BoxFlags) => async (box) => {
      const alerts = createAlerts(box.monitor)
      const [firing, subscriptions] = await Promise.all([alerts.firing(), alerts.subscriptions()])
      if (json) return printer.json({ firing, subscriptions })
      const now = Date.now()
      printList(printer, { items: firing }, 'No alert fires.', ['ALERT', 'FOR', 'SAYS'], (alert) => [
        ...[alert.subject, showSpan(now - alert.since), alert.says],
      ])
      const none = 'No channel is alerted: signalbox alerts add NAME FILE'
      printList(printer, { items: subscriptions }, none, ['=ID', 'NAME', 'CHANNEL'], (one) => [
        ...[one.id, one.name, one.channel.shown],
      ])
    })
}

type AddFlags = Flags<'window' | 'digest'> & { readonly rule?: NonNullable<AlertSubscribeOptions['rule']> }

function addAlertsCommand(printer: Printer): CliCommand {
  return new CliCommand('add', 'alert a channel of problems')
    .argument('<name>', 'the name of the subscription')
    .argument('<file>', 'a JSON file with the channel; - reads standard input')
    .option('--rule <rule>', 'only alerts of this rule, such as dead-jobs')
    .option('--window <span>', 'how long the same alert is not repeated (default: 10m)')
    .option('--digest <span>', 'gather alerts for this long into one message (default: 30s)')
    .examples('alerts add on-call channel.json --rule dead-jobs')
    .onBox((name: string, file: string, { rule, window, digest, json }: AddFlags) => {
      const options = {
        name,
        channel: readChannel(file),
        rule,
        windowMs: spanOf('--window', window),
        digestMs: spanOf('--digest', digest),
      }
      return async (box) => {
        const added = await createAlerts(box.monitor).add(options)
        printer.answer(json, added, `${added.channel.shown} is alerted (subscription ${added.id})`)
      }
    })
}

function removeAlertsCommand(printer: Printer): CliCommand {
  return new CliCommand('rm', 'end a subscription to alerts')
    .argument('<id>', 'the subscription')
    .examples('alerts rm 01k9z3v8qe0m4t9wq3rb5c7xkd')
    .onBox((id: string, { json }: BoxFlags) => async (box) => {
      await createAlerts(box.monitor).remove(id)
      printer.answer(json, { id, deleted: true }, `subscription ${id} has ended`)
    })
}

function testAlertCommand(printer: Printer, endWith: (exitCode: number) => void): CliCommand {
  return new CliCommand('test', 'send a test alert the way that all alerts go')
    .note('Exit codes: 0 a channel will get it, 1 no subscription takes it.')
    .examples('alerts test')
    .onBox(({ json }: BoxFlags) => async (box) => {
      const answer = await createAlerts(box.monitor).test()
      if (answer.notified === 0) endWith(1)
      if (json) printer.json(answer)
      else if (answer.notified === 0)
        printer.problem('no subscription takes all alerts: signalbox alerts add')
      else printer.line(`${answer.notified} channel${answer.notified === 1 ? ' gets' : 's get'} a test alert`)
    })
}
