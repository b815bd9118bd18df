import { type ReactNode, useId, useState } from 'react'
import type { MonitorClient } from '../../../../src/http/client/index.ts'
import { Action } from '../../../kit/action.tsx'
import { Problem } from '../../../kit/problem.tsx'
import { Badge } from '../../../kit/state.tsx'
import { Text } from '../../../kit/text/text.tsx'
import { useClient } from '../../../shell/session.ts'
import type { Say } from '../../../words/catalogue.ts'
import { useWords } from '../../../words/language.tsx'
import { monitorWords } from '../../../words/monitor.ts'
import { Field } from './form-dialog.tsx'

/** The types, in the order of the list. The ones without a secret have their key in the address. */
const secrets = {
  dingtalk: 'optional',
  feishu: 'optional',
  wecom: 'none',
  slack: 'none',
  webhook: 'needed',
} as const
const types = Object.keys(secrets) as (keyof typeof secrets)[]

/** How a channel is written in a form. */
export interface WrittenChannel {
  readonly type: (typeof types)[number]
  readonly url: string
  readonly secret: string
}

export const noChannel: WrittenChannel = { type: 'dingtalk', url: '', secret: '' }

/** Reads the form; throws a message for a missing field. The server checks the rest, and quotes none of it. */
export function channelOf(
  { type, url, secret }: WrittenChannel,
  say: Say<typeof monitorWords>,
): Parameters<MonitorClient['test']>[0] {
  if (url.trim() === '') throw new Error(say('urlNeeded'))
  const given = { type, url: url.trim(), ...(secrets[type] !== 'none' && secret !== '' ? { secret } : {}) }
  return given as Parameters<MonitorClient['test']>[0]
}

export interface ChannelFormProps {
  readonly value: WrittenChannel
  readonly onChange: (value: WrittenChannel) => void
  readonly first?: boolean
}

/** Through which channel, with a way to try it. */
export function ChannelForm({ value, onChange, first = false }: ChannelFormProps): ReactNode {
  const say = useWords(monitorWords)
  const id = useId()
  return (
    <fieldset className="monitor-channel">
      <legend>{say('channel')}</legend>
      <div className="field">
        <label htmlFor={id}>{say('type')}</label>
        <select
          id={id}
          value={value.type}
          onChange={(event) => onChange({ ...value, type: event.target.value as WrittenChannel['type'] })}
        >
          {types.map((type) => (
            <option key={type} value={type}>
              {say(type)}
            </option>
          ))}
        </select>
      </div>
      <Field
        mono
        first={first}
        label={say('url')}
        value={value.url}
        onChange={(url) => onChange({ ...value, url })}
      />
      {secrets[value.type] !== 'none' && (
        <Field
          hidden
          label={say(secrets[value.type] === 'needed' ? 'secretNeeded' : 'secretOptional')}
          value={value.secret}
          onChange={(secret) => onChange({ ...value, secret })}
        />
      )}
      <TestSend channel={value} />
    </fieldset>
  )
}

type Answer = Awaited<ReturnType<MonitorClient['test']>>

/** Sends a message through the entered channel now, and shows the result. */
function TestSend({ channel }: { readonly channel: WrittenChannel }): ReactNode {
  const say = useWords(monitorWords)
  const client = useClient()
  const [working, setWorking] = useState(false)
  const [answer, setAnswer] = useState<{ readonly of: WrittenChannel; readonly answer: Answer }>()
  const [error, setError] = useState<unknown>()
  const test = async () => {
    setWorking(true)
    setError(undefined)
    setAnswer(undefined)
    try {
      setAnswer({ of: channel, answer: await client.monitor.test(channelOf(channel, say)) })
    } catch (thrown) {
      setError(thrown)
    }
    setWorking(false)
  }
  return (
    <div className="monitor-test">
      <Action scope="admin" disabled={working} reason={say('testing')} onPress={() => void test()}>
        {working ? say('testing') : say('test')}
      </Action>
      <div role="status">
        {/* A result for another address does not apply to this one. */}
        {answer !== undefined && answer.of === channel && <Answered answer={answer.answer} />}
      </div>
      {error !== undefined && <Problem error={error} />}
    </div>
  )
}

function Answered({ answer: { ok, reason, shown } }: { readonly answer: Answer }): ReactNode {
  const say = useWords(monitorWords)
  return (
    <>
      <Badge tone={ok ? 'good' : 'bad'} icon={ok ? 'completed' : 'dead'}>
        {say(ok ? 'testTaken' : 'testRefused')}
      </Badge>{' '}
      {reason !== null && <Text value={reason} />}{' '}
      {shown !== null && (
        <span className="aside">
          <Text value={shown} />
        </span>
      )}
    </>
  )
}
