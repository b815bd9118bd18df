import { Command } from 'commander'
import { type AlertSubscribeOptions, createAlerts } from '../../fleet/alerts/index.ts'
import { spanOf } from '../config/value-kinds.ts'
import { type Printer, printTable, showSpan } from '../print.ts'
import type { Stage } from '../verbs.ts'
import { readChannel } from './monitor.ts'
import { addBoxFlags, openPlace, type PlaceFlags } from './place.ts'

/** `signalbox alerts ls|add|rm|test`: problems of the fleet, and the channels that are told. */
export function alertsCommand({ printer, endWith }: Stage): Command {
  return new Command('alerts')
    .addHelpText(
      'after',
      '\nServers look for alerts only while a channel wants them.\n' +
        '\nExamples:\n  signalbox alerts add on-call channel.json\n  signalbox alerts ls\n  signalbox alerts test',
    )
    .addCommand(listCommand(printer))
    .addCommand(addCommand(printer))
    .addCommand(removeCommand(printer))
    .addCommand(testCommand(printer, endWith))
}

function listCommand(printer: Printer): Command {
  const command = new Command('ls')
    .alias('list')
    .description('list the alerts that fire, and who is alerted')
    .addHelpText('after', '\nExamples:\n  signalbox alerts ls --json')
    .action(async ({ json, ...place }: PlaceFlags) => {
      await using box = await openPlace(command, place)
      const alerts = createAlerts(box.monitor)
      const [firing, subscriptions] = await Promise.all([alerts.firing(), alerts.subscriptions()])
      if (json) return printer.json({ firing, subscriptions })
      const now = Date.now()
      if (firing.length === 0) printer.line('No alert fires.')
      else {
        const rows = firing.map(({ subject, says, since }) => [subject, showSpan(now - since), says])
        printTable(printer, ['ALERT', 'FOR', 'SAYS'], rows)
      }
      if (subscriptions.length === 0) printer.line('No channel is alerted: signalbox alerts add NAME FILE')
      else {
        const rows = subscriptions.map(({ id, name, channel }) => [id, name, channel.shown])
        printTable(printer, ['=ID', 'NAME', 'CHANNEL'], rows)
      }
    })
  return addBoxFlags(command)
}

interface AddFlags extends PlaceFlags {
  readonly rule?: string
  readonly window?: string
  readonly digest?: string
}

function addCommand(printer: Printer): Command {
  const command = new Command('add')
    .description('alert a channel of problems')
    .argument('<name>', 'the name of the subscription')
    .argument('<file>', 'a JSON file with the channel; - reads standard input')
    .option('--rule <rule>', 'only alerts of this rule, such as dead-jobs')
    .option('--window <span>', 'how long the same alert is not repeated (default: 10m)')
    .option('--digest <span>', 'gather alerts for this long into one message (default: 30s)')
    .addHelpText('after', '\nExamples:\n  signalbox alerts add on-call channel.json --rule dead-jobs')
    .action(async (name: string, file: string, { rule, window, digest, json, ...place }: AddFlags) => {
      const channel = readChannel(file)
      const windowMs = spanOf('--window', window)
      const digestMs = spanOf('--digest', digest)
      await using box = await openPlace(command, place)
      const options = {
        ...{ name, channel },
        ...(rule === undefined ? {} : { rule }),
        ...(windowMs === undefined ? {} : { windowMs }),
        ...(digestMs === undefined ? {} : { digestMs }),
      }
      const added = await createAlerts(box.monitor).add(options as AlertSubscribeOptions)
      if (json) printer.json(added)
      else printer.line(`${added.channel.shown} is alerted (subscription ${added.id})`)
    })
  return addBoxFlags(command)
}

function removeCommand(printer: Printer): Command {
  const command = new Command('rm')
    .description('end a subscription to alerts')
    .argument('<id>', 'the subscription')
    .addHelpText('after', '\nExamples:\n  signalbox alerts rm 01k9z3v8qe0m4t9wq3rb5c7xkd')
    .action(async (id: string, { json, ...place }: PlaceFlags) => {
      await using box = await openPlace(command, place)
      await createAlerts(box.monitor).remove(id)
      if (json) printer.json({ id, deleted: true })
      else printer.line(`subscription ${id} has ended`)
    })
  return addBoxFlags(command)
}

function testCommand(printer: Printer, endWith: (exitCode: number) => void): Command {
  const command = new Command('test')
    .description('send a test alert the way that all alerts go')
    .addHelpText(
      'after',
      '\nExit codes: 0 a channel will get it, 1 no subscription takes it.\n\nExamples:\n  signalbox alerts test',
    )
    .action(async ({ json, ...place }: PlaceFlags) => {
      await using box = await openPlace(command, place)
      const answer = await createAlerts(box.monitor).test()
      if (answer.notified === 0) endWith(1)
      if (json) printer.json(answer)
      else if (answer.notified === 0)
        printer.problem('no subscription takes all alerts: signalbox alerts add')
      else printer.line(`${answer.notified} channel${answer.notified === 1 ? ' gets' : 's get'} a test alert`)
    })
  return addBoxFlags(command)
}
