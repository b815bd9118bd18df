import { catalogue } from './catalogue.ts'

export const auditWords = catalogue({
  lead: {
    en: 'Actions of operators in this namespace: who, what, target and outcome.',
    zh: '此命名空间中的操作记录：谁、做了什么、对象与结果。',
  },
  action: { en: 'Action', zh: '操作' },
  deed: { en: 'Action and target', zh: '操作与对象' },
  anyAction: { en: 'Any action', zh: '全部操作' },
  actor: { en: 'By', zh: '操作者' },
  anyActor: { en: 'Anyone', zh: '全部操作者' },
  when: { en: 'When', zh: '时间' },
  local: { en: 'this machine', zh: '本机' },
  outcome: { en: 'Outcome', zh: '结果' },
  done: { en: 'done', zh: '完成' },
  refused: { en: 'refused', zh: '被拒绝' },
  unknown: { en: 'unknown', zh: '未知' },
  none: { en: 'No entries', zh: '没有记录' },
  noneNext: {
    en: 'Pauses, retries, cancellations, evictions, drains and token changes appear here.',
    zh: '暂停、重试、取消、驱逐、排空以及令牌操作会记录在此。',
  },
  needsAdmin: {
    en: 'The audit log needs a token with the scope "admin"',
    zh: '审计仅对 admin 权限的令牌开放',
  },
  needsAdminNext: {
    en: 'Sign in with such a token.',
    zh: '请使用具有该权限的令牌登录。',
  },
})
