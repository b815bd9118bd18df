import { type ReactNode, useId, useState } from 'react'
import { Button } from '../../kit/button.tsx'
import { Confirm } from '../../kit/confirm.tsx'
import { Input, Select } from '../../kit/field.tsx'
import { visible } from '../../kit/text/visible.ts'
import { toast } from '../../kit/toast.tsx'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { nodesWords } from '../../words/nodes.ts'
import {
  type Condition,
  conditionKinds,
  conditionsOf,
  emptyCondition,
  type Pool,
  type Term,
  termsOf,
} from './rule.ts'
import { poolTold } from './until-published.ts'

export interface PoolFormProps {
  /** The one whose rule is changed. */
  readonly pool?: Pool | undefined
  readonly onClose: () => void
}

/** A line with a number, because lines may be removed in between. */
type Line = Condition & { readonly nth: number }

const exampleRule = '[{ "label": "region", "in": ["eu"] }]'

/** Defines a pool by conditions, or by JSON for what they cannot say. */
export function PoolForm({ pool, onClose }: PoolFormProps): ReactNode {
  const say = useWords(nodesWords)
  const client = useClient()
  const [known] = useState(() => conditionsOf(pool?.requires ?? []))
  const [name, writeName] = useState(pool?.name ?? '')
  const [lines, setLines] = useState<readonly Line[]>(() =>
    (known?.length ? known : [emptyCondition]).map((line, nth) => ({ ...line, nth })),
  )
  const [json, writeJson] = useState<string | undefined>(
    known === undefined ? JSON.stringify(pool?.requires, null, 2) : undefined,
  )
  const save = async () => {
    const requires =
      json === undefined
        ? termsOf(written(lines), say)
        : parse(json, say('notJson', { example: exampleRule }))
    const defined = await client.dispatch.definePool({ name: name.trim(), requires })
    toast(say('poolSaved', { pool: visible(defined.name) }))
    const rule = JSON.stringify(defined.requires)
    await poolTold(client, defined.name, (now) => JSON.stringify(now?.requires) === rule)
  }
  const toJson = () => {
    let terms: readonly Term[] = []
    try {
      terms = termsOf(written(lines), say)
    } catch {
      // Discard invalid JSON and start with an empty form.
    }
    writeJson(JSON.stringify(terms, null, 2))
  }
  return (
    <Confirm
      title={pool?.name ? say('change', { pool: visible(pool.name) }) : say('define')}
      act={say('save')}
      onConfirm={save}
      onClose={onClose}
    >
      <p>{say('ruleMeans')}</p>
      {!pool?.name && <Input live label={say('poolName')} value={name} onChange={writeName} />}
      {json === undefined ? (
        <Conditions lines={lines} onChange={setLines} />
      ) : (
        <JsonRule text={json} onChange={writeJson} />
      )}
      <div className="nodes-formfeet">
        {json === undefined && (
          <Button onPress={() => setLines([...lines, { ...emptyCondition, nth: nextOf(lines) }])}>
            {say('addCondition')}
          </Button>
        )}
        <Button
          look="quiet"
          disabled={json !== undefined && known === undefined}
          reason={say('needsForm')}
          onPress={json === undefined ? toJson : () => writeJson(undefined)}
        >
          {say(json === undefined ? 'asJson' : 'asForm')}
        </Button>
      </div>
    </Confirm>
  )
}

interface ConditionsProps {
  readonly lines: readonly Line[]
  readonly onChange: (lines: readonly Line[]) => void
}

function Conditions({ lines, onChange }: ConditionsProps): ReactNode {
  const say = useWords(nodesWords)
  const change = (nth: number, by: Partial<Condition>) =>
    onChange(lines.map((line) => (line.nth === nth ? { ...line, ...by } : line)))
  return lines.map(({ nth, kind, name, value }, place) => (
    <fieldset key={nth} className="nodes-condition">
      <legend className="hidden">{say('condition', { nth: place + 1 })}</legend>
      <Select
        bare
        label={say('conditionKind')}
        value={kind}
        options={conditionKinds.map((one) => [one, say(`kind${one}`)] as const)}
        onChange={(chosen) => change(nth, { kind: chosen })}
      />
      <Input
        bare
        live
        label={say('conditionName')}
        placeholder={kind === 'Service' ? 'nmt' : kind === 'From' || kind === 'To' ? 'memoryGb' : 'region'}
        value={name}
        onChange={(text) => change(nth, { name: text })}
      />
      {kind !== 'There' && (
        <Input
          bare
          live
          label={say('conditionValue')}
          placeholder={say(kind === 'Service' ? 'hintTags' : kind.endsWith('In') ? 'hintIn' : 'hintNumber')}
          value={value}
          onChange={(text) => change(nth, { value: text })}
        />
      )}
      <Button
        look="quiet"
        icon="dead"
        label={say('dropCondition', { nth: place + 1 })}
        onPress={() => onChange(lines.filter((line) => line.nth !== nth))}
      >
        {null}
      </Button>
    </fieldset>
  ))
}

function JsonRule({
  text,
  onChange,
}: {
  readonly text: string
  readonly onChange: (text: string) => void
}): ReactNode {
  const say = useWords(nodesWords)
  const id = useId()
  return (
    <p className="field">
      <label htmlFor={id}>{say('ruleJson')}</label>
      <textarea
        id={id}
        className="mono"
        rows={8}
        spellCheck={false}
        value={text}
        onChange={(event) => onChange(event.target.value)}
      />
    </p>
  )
}

function nextOf(lines: readonly Line[]): number {
  return lines.reduce((last, { nth }) => Math.max(last, nth), -1) + 1
}

/** An empty line is ignored. */
function written(lines: readonly Line[]): readonly Condition[] {
  return lines.filter(({ name, value }) => name.trim() !== '' || value.trim() !== '')
}

function parse(text: string, refusal: string): readonly Term[] {
  try {
    const terms: unknown = JSON.parse(text)
    if (Array.isArray(terms)) return terms as readonly Term[]
  } catch {
    // The form shows the error below.
  }
  throw new Error(refusal)
}
