import type { ReactNode } from 'react'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { Icon, type IconName } from './icon.tsx'

/** The colour of a state. The icon and the word say the same without colour. */
const tones = {
  scheduled: 'calm',
  ready: 'info',
  waiting: 'warn',
  running: 'busy',
  completed: 'good',
  dead: 'bad',
  failed: 'bad',
  cancelled: 'calm',
  paused: 'warn',
  active: 'good',
  ok: 'good',
  warning: 'warn',
} as const

export type StateName = keyof typeof tones
export type Tone = 'calm' | 'info' | 'warn' | 'busy' | 'good' | 'bad'

const icons: Readonly<Partial<Record<StateName, IconName>>> = {
  failed: 'dead',
  active: 'running',
  ok: 'completed',
}

export interface StateProps {
  readonly name: StateName
}

/** The state of a thing, as a drawing and a word. */
export function State({ name }: StateProps): ReactNode {
  const say = useWords(kitWords)
  return (
    <Badge tone={tones[name]} icon={icons[name] ?? (name as IconName)}>
      {say(name)}
    </Badge>
  )
}

export interface BadgeProps {
  readonly tone: Tone
  readonly icon?: IconName
  readonly title?: string | undefined
  readonly children: ReactNode
}

/** The same for words of a view's own. */
export function Badge({ tone, icon, title, children }: BadgeProps): ReactNode {
  return (
    <span className={`badge ${tone}`} title={title}>
      {icon && <Icon name={icon} />}
      {children}
    </span>
  )
}
