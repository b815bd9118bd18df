import { type ReactNode, useState } from 'react'
import type { LimitQueueBody, WireQueueStats } from '../../../src/http/client/index.ts'
import { Confirm } from '../../kit/confirm.tsx'
import { Input } from '../../kit/field.tsx'
import { spanOf, writeSpan } from '../../kit/text/span.ts'
import { visible } from '../../kit/text/visible.ts'
import { toast } from '../../kit/toast.tsx'
import { changed } from '../../live/queries.ts'
import { useClient } from '../../shell/session.ts'
import type { Say } from '../../words/catalogue.ts'
import { useWords } from '../../words/language.tsx'
import { queuesWords } from '../../words/queues.ts'

/** The fields of one limit. */
interface Written {
  readonly concurrency: string
  readonly count: string
  readonly per: string
}

type Limits = NonNullable<WireQueueStats['limits']>

export interface LimitsFormProps {
  readonly queue: string
  readonly limits: Limits | null
  readonly onClose: () => void
}

/** Sets or lifts the limits of a queue. */
export function LimitsForm({ queue, limits, onClose }: LimitsFormProps): ReactNode {
  const say = useWords(queuesWords)
  const client = useClient()
  const [whole, writeWhole] = useState(() => written(limits))
  const [perKey, writePerKey] = useState(() => written(limits?.perKey ?? null))
  const save = async () => {
    const own = parse(whole, say)
    const keys = parse(perKey, say)
    const isLifted = own === undefined && keys === undefined
    await client.jobs.setLimits(queue, isLifted ? null : { ...own, ...(keys && { perKey: keys }) })
    toast(say(isLifted ? 'limitsLifted' : 'limitsSet'))
    await changed('queues', 'audit')
  }
  return (
    <Confirm
      title={say('setLimitsOf', { queue: visible(queue) })}
      act={say('save')}
      onConfirm={save}
      onClose={onClose}
    >
      <p>{say('limitsMean')}</p>
      <Fields legend={say('wholeQueue')} value={whole} onChange={writeWhole} />
      <Fields legend={say('everyKey')} value={perKey} onChange={writePerKey} />
    </Confirm>
  )
}

interface FieldsProps {
  readonly legend: string
  readonly value: Written
  readonly onChange: (value: Written) => void
}

function Fields({ legend, value, onChange }: FieldsProps): ReactNode {
  const say = useWords(queuesWords)
  const field = (name: keyof Written, label: string) => (
    <Input live label={label} value={value[name]} onChange={(text) => onChange({ ...value, [name]: text })} />
  )
  return (
    <fieldset className="queue-limits">
      <legend>{legend}</legend>
      {field('concurrency', say('concurrency'))}
      {field('count', say('rateCount'))}
      {field('per', say('ratePer'))}
    </fieldset>
  )
}

function written(limit: Pick<Limits, 'concurrency' | 'rate'> | null): Written {
  return {
    concurrency: limit?.concurrency?.toString() ?? '',
    count: limit?.rate?.count.toString() ?? '',
    per: limit?.rate ? writeSpan(limit.rate.perMs) : '',
  }
}

/** Undefined: nothing is limited. */
function parse(
  { concurrency, count, per }: Written,
  say: Say<typeof queuesWords>,
): Omit<LimitQueueBody, 'perKey'> | undefined {
  const whole = (text: string) => {
    if (!/^[1-9]\d{0,6}$/.test(text.trim())) throw new Error(say('notACount', { value: visible(text) }))
    return Number(text)
  }
  const hasRate = count.trim() !== '' || per.trim() !== ''
  if (hasRate && (count.trim() === '' || per.trim() === '')) throw new Error(say('rateNeedsBoth'))
  if (!hasRate && concurrency.trim() === '') return undefined
  return {
    ...(concurrency.trim() === '' ? {} : { concurrency: whole(concurrency) }),
    ...(hasRate ? { rate: { count: whole(count), perMs: spanOf(per) } } : {}),
  }
}
